'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const byId = (id) => document.getElementById(id);
const winds = ['East', 'South', 'West', 'North'];
const honors = ['E', 'S', 'W', 'N', 'P', 'F', 'C'];
const honorNames = ['east', 'south', 'west', 'north', 'white dragon', 'green dragon', 'red dragon'];
const suitNames = {m: 'characters', p: 'circles', s: 'bamboo'};
const drawnFlag = 64, riichiFlag = 128, calledFlag = 256;
const state = {seat: data.seat, frame: 0, reveal: false};

function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, properties || {});
  made.append(...children.filter((child) => child !== null));
  return made;
}

// 0-33 kinds, 34-36 red fives.
const kindOf = (tile) => (tile < 34 ? tile : 4 + 9 * (tile - 34));
function tileName(tile) {
  const kind = kindOf(tile);
  return kind >= 27 ? honors[kind - 27] : `${kind % 9 + 1}${'mps'[Math.floor(kind / 9)]}${tile >= 34 ? ' red' : ''}`;
}
function tileElement(tile, classes = '') {
  if (tile < 0) return element('span', {className: `tile back ${classes}`, title: 'hidden'});
  const kind = kindOf(tile);
  if (kind >= 27)
    return element('span', {className: `tile z ${classes}`, title: honorNames[kind - 27]}, honors[kind - 27]);
  const suit = 'mps'[Math.floor(kind / 9)], number = kind % 9 + 1, red = tile >= 34;
  return element('span', {className: `tile ${suit} ${red ? 'red' : ''} ${classes}`,
                          title: `${red ? 'red ' : ''}${number} of ${suitNames[suit]}`},
                 String(number), element('small', {}, suit));
}

const nameOf = (seat) => data.names[seat] || `seat ${seat}`;
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)}%`;
const signed = (points) => (points === 0 ? '0' : `${points < 0 ? '\u2212' : '+'}${Math.abs(points).toLocaleString('en')}`);
const framesOf = (round) => {
  const first = data.frames.findIndex((frame) => frame.r === round);
  let last = first;
  while (last + 1 < data.frames.length && data.frames[last + 1].r === round) ++last;
  return [first, last];
};
const decisionOf = (frame) => (frame.x < 0 ? null : data.decisions[frame.x]);
const ofSeat = (seat) => data.decisions.filter((decision) => decision.s === seat);
const mistakesOf = (seat) => ofSeat(seat).filter((d) => d.p[0][2] !== d.c).sort((a, b) => b.e - a.e);

function handElement(frame, seat, decision) {
  const open = state.reveal || seat === state.seat;
  const own = frame.p === seat;
  const tiles = frame.h[seat].slice().sort((a, b) => kindOf(a) - kindOf(b) || b - a);
  const drawn = own && frame.d >= 0 ? frame.d : -1;
  if (drawn >= 0) {
    tiles.splice(tiles.indexOf(drawn), 1);
    tiles.push(drawn);
  }
  const hand = element('div', {className: 'tiles hand'});
  const judged = decision !== null && decision.s === seat && open;
  const best = judged ? decision.p[0][2] : -1;
  let marked = false, praised = false;
  tiles.forEach((tile, i) => {
    let classes = drawn >= 0 && i === tiles.length - 1 ? 'drawn' : '';
    if (!open) return hand.append(tileElement(-1, classes));
    if (judged && !marked && decision.c === tile) { classes += ' chosen'; marked = true; }
    if (judged && !praised && best === tile) { classes += ' best'; praised = true; }
    const made = tileElement(tile, classes);
    if (judged) {
      const risk = decision.g[kindOf(tile)];
      made.title += `, deals in with ${percent(risk)}`;
      const mark = element('span', {className: 'risk'});
      mark.style.transform = `scaleX(${Math.min(1, risk * 4)})`;
      made.append(mark);
    }
    hand.append(made);
  });
  for (const meld of frame.m[seat]) {
    const group = element('span', {className: 'meld'});
    meld.forEach((tile) => group.append(tileElement(tile)));
    hand.append(group);
  }
  return hand;
}

function riverElement(frame, seat) {
  const river = element('div', {className: 'tiles river'});
  for (const [i, entry] of frame.v[seat].entries()) {
    let classes = entry & drawnFlag ? 'own-draw' : '';
    if (entry & riichiFlag) classes += ' riichi';
    if (entry & calledFlag) classes += ' called';
    if (frame.q === seat && i === frame.v[seat].length - 1) classes += ' chosen';  // what may be claimed
    river.append(tileElement(entry & 63, classes));
  }
  return river;
}

function renderBoard(frame, decision) {
  const round = data.rounds[frame.r];
  const indicators = element('span', {className: 'tiles river', title: 'dora indicators'});
  frame.o.forEach((tile) => indicators.append(tileElement(tile)));
  const info = element('div', {id: 'info'}, element('b', {}, round.name), indicators,
                       element('span', {}, `${frame.l} tiles left`), element('span', {}, `${frame.k} riichi sticks`));
  const seats = [0, 1, 2, 3].map((i) => {
    const seat = (state.seat + i) % 4;
    const who = element('div', {className: 'who'}, `${nameOf(seat)}`,
                        element('span', {className: 'score'}, `${winds[(seat - round.dealer + 4) % 4]} \u00b7 ${frame.s[seat].toLocaleString('en')}`),
                        frame.i >> seat & 1 ? element('span', {className: 'badge'}, 'riichi') : null,
                        frame.p === seat ? element('span', {className: 'score'}, frame.a) : null);
    return element('div', {className: `seat ${frame.p === seat ? 'acts' : ''}`}, who,
                   handElement(frame, seat, decision), riverElement(frame, seat));
  });
  byId('board').replaceChildren(info, ...seats);
}

function barRow(rows, label, share, kind, text, chosen) {
  const fill = element('i');
  fill.style.width = `${100 * share}%`;
  rows.append(element('span', {className: chosen ? 'chosen' : ''}, label),
              element('span', {className: `bar ${kind}`}, fill), element('span', {}, text));
}

function renderPanel(frame, decision) {
  const panel = byId('panel');
  const title = element('h2', {}, `${nameOf(frame.p)}: ${frame.a}`);
  if (decision === null) return panel.replaceChildren(title, element('p', {className: 'note'}, 'There was no choice.'));
  if (decision.s !== state.seat && !state.reveal)
    return panel.replaceChildren(title, element('p', {className: 'note'},
      'Another seat decides. Open the hands (r) or go to that seat to see what the network thinks.'));
  const agrees = decision.p[0][2] === decision.c;
  const verdict = element('p', {className: `verdict ${agrees ? 'good' : 'bad'}`},
    agrees ? 'The network would do the same.' : `The network would ${decision.p[0][0]} instead; cost ${percent(decision.e)}.`);
  const policy = element('div', {className: 'bars'});
  decision.p.forEach(([name, share, index], i) => {
    if (i < 8 || index === decision.c) barRow(policy, name, share, i === 0 ? 'best' : '', percent(share), index === decision.c);
  });
  const places = element('div', {className: 'bars'});
  decision.w.forEach((share, i) => barRow(places, ['1st', '2nd', '3rd', '4th'][i], share, '', percent(share), false));
  const threats = element('div', {className: 'bars'});
  decision.t.forEach((share, i) => barRow(threats, nameOf((decision.s + 1 + i) % 4), share, 'risk', percent(share), false));
  panel.replaceChildren(title, verdict, element('h3', {}, 'Policy (the choice in blue)'), policy,
    element('h3', {}, `Value: the rest of the game brings ${signed(decision.v)} points`), element('h3', {}, 'Ends the game'), places,
    element('h3', {}, 'Opponents are tenpai'), threats,
    element('p', {className: 'note'}, 'Red lines under the hand: the odds of dealing in (a full line is 25% or more). Green: the network\u2019s discard.'));
}

function renderLists() {
  const list = byId('mistakes');
  const mistakes = mistakesOf(state.seat);
  list.replaceChildren(...mistakes.slice(0, 60).map((d) => {
    const go = element('button', {type: 'button'}, element('b', {}, percent(d.e)),
                       element('span', {}, `${data.rounds[d.r].name}: ${d.n}, not ${d.p[0][0]}`));
    go.onclick = () => show(d.f);
    return element('li', {}, go);
  }));
  if (mistakes.length === 0) list.append(element('li', {}, 'None: the network agrees with every decision.'));
  const head = element('tr', {}, ...['round', 'decisions', 'agrees', 'cost', 'points', 'result'].map((t) => element('th', {}, t)));
  const rows = data.rounds.map((round, r) => {
    const decisions = ofSeat(state.seat).filter((d) => d.r === r);
    const agreed = decisions.filter((d) => d.p[0][2] === d.c).length;
    const cost = decisions.reduce((sum, d) => sum + d.e, 0);
    return element('tr', {}, element('td', {}, round.name), element('td', {}, String(decisions.length)),
      element('td', {}, decisions.length ? percent(agreed / decisions.length) : '\u2013'), element('td', {}, cost.toFixed(2)),
      element('td', {className: round.deltas[state.seat] < 0 ? 'bad' : ''}, signed(round.deltas[state.seat])), element('td', {}, round.result));
  });
  byId('summary').replaceChildren(head, ...rows);
  const all = ofSeat(state.seat), agreed = all.filter((d) => d.p[0][2] === d.c).length;
  byId('subtitle').textContent = `${data.source} \u00b7 reviewed by ${data.player} \u00b7 agrees with ${nameOf(state.seat)} in ` +
    `${agreed} of ${all.length} decisions (${all.length ? percent(agreed / all.length) : '\u2013'})`;
}

function render() {
  const frame = data.frames[state.frame];
  const decision = decisionOf(frame);
  renderBoard(frame, decision);
  renderPanel(frame, decision);
  const [first, last] = framesOf(frame.r);
  Object.assign(byId('slider'), {min: first, max: last});
  byId('slider').value = state.frame;
  [...byId('rounds').children].forEach((tab, r) => tab.setAttribute('aria-current', String(r === frame.r)));
  const tabs = byId('rounds'), tab = tabs.children[frame.r];
  tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - tabs.clientWidth / 2 + tab.clientWidth / 2;
  byId('reveal').setAttribute('aria-pressed', String(state.reveal));
  history.replaceState(null, '', `#seat=${state.seat}&step=${state.frame}`);
}

function show(frame) {
  state.frame = Math.max(0, Math.min(data.frames.length - 1, frame));
  render();
}
function sit(seat) {
  state.seat = seat;
  byId('seat').value = String(seat);
  renderLists();
  render();
}
// To the next of a list of frames in a direction.
function jump(frames, direction) {
  const sorted = frames.slice().sort((a, b) => a - b);
  const next = direction > 0 ? sorted.find((f) => f > state.frame) : sorted.reverse().find((f) => f < state.frame);
  if (next !== undefined) show(next);
}
const mistakeFrames = () => mistakesOf(state.seat).map((d) => d.f);
const decisionFrames = () => ofSeat(state.seat).map((d) => d.f);
function reveal() { state.reveal = !state.reveal; render(); }
function setTheme(theme) { document.documentElement.dataset.theme = theme; }
function toggleTheme() { setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'); }
function toRound(round) {
  if (round >= 0 && round < data.rounds.length) show(framesOf(round)[0]);
}

const actions = {
  ArrowRight: () => show(state.frame + 1), ArrowLeft: () => show(state.frame - 1),
  ArrowDown: () => jump(decisionFrames(), 1), ArrowUp: () => jump(decisionFrames(), -1),
  n: () => jump(mistakeFrames(), 1), p: () => jump(mistakeFrames(), -1),
  Home: () => show(framesOf(data.frames[state.frame].r)[0]), End: () => show(framesOf(data.frames[state.frame].r)[1]),
  '[': () => toRound(data.frames[state.frame].r - 1), ']': () => toRound(data.frames[state.frame].r + 1),
  r: reveal, t: toggleTheme, '?': () => byId('help').showModal(),
};
for (const seat of [0, 1, 2, 3]) actions[String(seat + 1)] = () => sit(seat);
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId('help').open || event.target.tagName === 'SELECT') return;
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

setTheme(matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
data.rounds.forEach((round, r) => {
  const tab = element('button', {type: 'button'}, round.name);
  tab.onclick = () => toRound(r);
  byId('rounds').append(tab);
});
for (const seat of [0, 1, 2, 3]) byId('seat').append(element('option', {value: String(seat)}, nameOf(seat)));
byId('seat').onchange = (event) => sit(Number(event.target.value));
byId('slider').oninput = (event) => show(Number(event.target.value));
byId('back').onclick = actions.ArrowLeft;
byId('forward').onclick = actions.ArrowRight;
byId('previous-mistake').onclick = actions.p;
byId('next-mistake').onclick = actions.n;
byId('reveal').onclick = reveal;
byId('theme').onclick = toggleTheme;
byId('keys').onclick = actions['?'];
const link = new URLSearchParams(location.hash.slice(1));
state.frame = Math.min(data.frames.length - 1, Math.max(0, Number(link.get('step')) || 0));
const linked = Number(link.get('seat'));
sit(link.has('seat') && linked >= 0 && linked < 4 ? linked : state.seat);
