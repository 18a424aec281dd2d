// The server's API, by paths beside this page: it may stand behind a proxy, below another path.
import {settings} from './store.js';

const headers = () => (settings.key ? {Authorization: `Bearer ${settings.key}`} : {});

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function checked(response) {
  if (response.ok) return response;
  const text = await response.text();
  let message = text.slice(0, 300) || response.statusText;
  try {
    message = JSON.parse(text).error.message;
  } catch { /* a proxy's page, say */ }
  throw new ApiError(response.status, message);
}

export async function listModels() {
  const response = await checked(await fetch('v1/models', {headers: headers()}));
  return (await response.json()).data;
}

export async function readMetrics() {
  const response = await checked(await fetch('metrics', {headers: headers()}));
  const values = {};
  for (const line of (await response.text()).split('\n')) {
    const found = line.match(/^([\w:]+)\{[^}]*\} (\S+)$/);
    if (found && !found[1].endsWith('_bucket')) values[found[1]] = (values[found[1]] || 0) + Number(found[2]);
  }
  return values;
}

/// When the last requests came, were admitted, had their first token and ended.
export async function readRequests() {
  return (await checked(await fetch('requests', {headers: headers()}))).json();
}

const numbers = ['temperature', 'top_p', 'top_k', 'min_p', 'repetition_penalty', 'frequency_penalty', 'presence_penalty',
                 'max_tokens', 'seed'];

function parsed(name, what) {
  try {
    return JSON.parse(settings[name]);
  } catch (error) {
    throw new Error(`${what} in the settings is not JSON: ${error.message}`);
  }
}

/// The body of a chat request by the settings. Throws where these are not JSON.
export function chatBody(model, messages) {
  const body = {model, messages, stream: true, stream_options: {include_usage: true}};
  for (const name of numbers) {
    if (settings[name] !== undefined && settings[name] !== '') body[name] = Number(settings[name]);
  }
  if (settings.stop) body.stop = [settings.stop];
  if (settings.probabilities) Object.assign(body, {logprobs: true, top_logprobs: 5});
  if (settings.schema) body.response_format = {type: 'json_schema', json_schema: {name: 'answer', schema: parsed('schema', 'the schema')}};
  if (settings.tools) {
    body.tools = parsed('tools', 'the list of tools').map((tool) => (tool.function ? tool : {type: 'function', function: tool}));
    if (settings.tool_choice) body.tool_choice = settings.tool_choice;
  }
  return body;
}

/// Calls `take` with each chunk of the answer.
export async function streamChat(body, signal, take) {
  const response = await checked(await fetch('v1/chat/completions', {
    method: 'POST', signal, headers: {'Content-Type': 'application/json', ...headers()}, body: JSON.stringify(body)}));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) throw new Error('the answer broke off');
    const lines = (held + value).split('\n');
    held = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data: ')) continue;
      if (line === 'data: [DONE]') return;
      const chunk = JSON.parse(line.slice(6));
      if (chunk.error) throw new ApiError(500, chunk.error.message);
      take(chunk);
    }
  }
}
