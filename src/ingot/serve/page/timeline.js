// The last requests of the server, each on a line: how long it waited, was read and was written.
import {byId, element} from './dom.js';

const longest = 60, most = 40;
const names = {queued: 'waits', prefill: 'is read', decode: 'is written', ended: 'ended'};

// Of 1000 units from `begin` to now.
function bar(kind, from, to, {begin, now}) {
  const place = (time) => Math.min(997, Math.max(0, 1000 * (time - begin) / (now - begin)));
  const rect = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
  rect.setAttribute('class', kind);
  rect.setAttribute('x', place(from));
  rect.setAttribute('width', Math.max(3, place(to) - place(from)));
  rect.setAttribute('height', 10);
  return rect;
}

function bars(request, scale) {
  const end = request.ended ?? scale.now;
  const admitted = request.admitted ?? end, first = request.first_token ?? end;
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 1000 10');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('aria-hidden', 'true');
  if (request.admitted !== null || request.ended === null) svg.append(bar('queued', request.arrived, admitted, scale));
  if (request.admitted !== null) svg.append(bar('prefill', admitted, first, scale));
  if (request.first_token !== null) svg.append(bar('decode', first, end, scale));
  return svg;
}

function line(request, scale) {
  const state = request.state === 'ended' ? request.end.replaceAll('_', ' ') : names[request.state];
  const seconds = ((request.ended ?? scale.now) - request.arrived).toFixed(1);
  const cached = request.cached_tokens ? `, ${request.cached_tokens} cached` : '';
  const who = [request.client, request.adapter || request.model].filter(Boolean).join(' · ');
  return element('li', {title: `${request.prompt_tokens} tokens read${cached}, ${request.tokens} written`},
                 element('span', {className: 'who'}, who), bars(request, scale),
                 element('span', {className: 'what'}, `${request.prompt_tokens} → ${request.tokens} tokens, ${seconds} s, ${state}`));
}

/// Shows the answer of GET requests.
export function showTimeline({now, requests}) {
  const seen = requests.filter((request) => request.ended === null || now - request.ended < longest).slice(-most).reverse();
  const begin = Math.max(now - longest, Math.min(now - 0.001, ...seen.map((request) => request.arrived)));
  byId('timeline').replaceChildren(...seen.map((request) => line(request, {begin, now})));
  byId('timeline-begin').textContent = seen.length ? `${(now - begin).toFixed(now - begin < 10 ? 1 : 0)} s ago to now` : '';
  byId('no-requests').hidden = seen.length > 0;
}
