// What the server has to do, from its metrics, while the reader looks.
import {readMetrics, readRequests} from './api.js';
import {byId, element} from './dom.js';
import {showTimeline} from './timeline.js';

const interval = 2000, kept = 60;
const speeds = [];
let last = null;

const share = (part, whole) => (whole > 0 ? `${(100 * part / whole).toFixed(0)} %` : '–');
const mean = (values, name) => {
  const count = values[`${name}_count`] || 0;
  return count > 0 ? `${(1000 * values[`${name}_sum`] / count).toFixed(0)} ms` : '–';
};

function show(values) {
  const now = performance.now();
  const tokens = values['vllm:generation_tokens_total'] || 0;
  if (last) {
    speeds.push((tokens - last.tokens) / (now - last.now) * 1000);
    if (speeds.length > kept) speeds.shift();
  }
  last = {tokens, now};
  const rows = [
    ['Requests running', values['vllm:num_requests_running'] || 0],
    ['Requests waiting', values['vllm:num_requests_waiting'] || 0],
    ['Tokens/s', speeds.length ? speeds[speeds.length - 1].toFixed(1) : '–'],
    ['KV cache in use', share(values['vllm:kv_cache_usage_perc'] || 0, 1)],
    ['Prompt tokens from the prefix cache', share(values['vllm:prefix_cache_hits_total'] || 0, values['vllm:prefix_cache_queries_total'] || 0)],
    ['Time to first token, mean', mean(values, 'vllm:time_to_first_token_seconds')],
    ['Between tokens, mean', mean(values, 'vllm:inter_token_latency_seconds')],
    ['Tokens written', tokens.toLocaleString('en')],
  ];
  byId('figures').replaceChildren(...rows.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, String(value))]));
  drawSpeed();
}

function drawSpeed() {
  const most = Math.max(1, ...speeds);
  const points = speeds.map((speed, i) => `${300 * (kept - speeds.length + i) / (kept - 1)},${58 - 56 * speed / most}`);
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'polyline');
  line.setAttribute('points', points.join(' '));
  byId('speed').replaceChildren(line);
}

export async function showLoad() {
  const dialog = byId('load');
  if (dialog.open) return;
  dialog.showModal();
  while (dialog.open) {
    try {
      const [metrics, requests] = await Promise.all([readMetrics(), readRequests()]);
      show(metrics);
      showTimeline(requests);
    } catch (error) {
      byId('figures').replaceChildren(element('dt', {}, error.message));
    }
    await new Promise((resolve) => { setTimeout(resolve, interval); });
  }
}
