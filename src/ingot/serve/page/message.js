// A message as an element: what it says, and what can be done with it.
import {copyText, element} from './dom.js';
import {showMarkdown} from './markdown.js';

const names = {user: 'You', assistant: 'Model', tool: 'Tool result'};

export function messageElement(message, actions) {
  const made = element('article', {className: `message ${message.role}`, tabIndex: -1});
  made.message = message;
  made.append(element('h2', {className: 'who'}, names[message.role]), element('div', {className: 'body'}),
              element('div', {className: 'actions'}));
  made.addActions = () => addActions(made, actions);
  showMessage(made);
  return made;
}

/// Shows what the message holds now.
export function showMessage(made, writing = false) {
  const {message} = made;
  const body = made.querySelector('.body');
  if (message.role !== 'assistant') {
    body.replaceChildren(element('div', {className: 'plain'}, message.content));
  } else {
    showReasoning(body, message, writing);
    message.tokens.length ? showTokens(part(body, 'tokens'), message.tokens) : showMarkdown(part(body, 'text'), message.content);
    showCalls(part(body, 'calls'), message.calls);
    part(body, 'error').textContent = message.error || '';
    part(body, 'stats').textContent = writing ? '' : statistics(message);
  }
  made.classList.toggle('writing', writing);
  writing ? made.querySelector('.actions').replaceChildren() : made.addActions();
}

function part(body, name) {
  let found = body.querySelector(`:scope > .${name}`);
  if (!found) {
    found = element('div', {className: name});
    body.append(found);
  }
  return found;
}

function showReasoning(body, message, writing) {
  if (!message.reasoning) return;
  let details = body.querySelector(':scope > .reasoning');
  if (!details) {
    details = element('details', {className: 'reasoning', open: writing}, element('summary'), element('div'));
    body.prepend(details);
  }
  const thinking = writing && !message.content && !message.calls.length;
  if (details.thinking && !thinking) details.open = false;
  details.thinking = thinking;
  details.firstChild.textContent = thinking ? 'Thinking …' : 'Thoughts';
  showMarkdown(details.lastChild, message.reasoning);
}

// From red for what was improbable to nothing for what was certain.
function showTokens(to, tokens) {
  for (let i = to.childNodes.length; i < tokens.length; ++i) {
    const probability = Math.exp(tokens[i].logprob);
    const made = element('span', {className: 'token', tabIndex: 0}, tokens[i].text);
    made.token = tokens[i];
    made.style.setProperty('--doubt', (1 - probability).toFixed(3));
    to.append(made);
  }
}

function showCalls(to, calls) {
  to.replaceChildren(...calls.map((call) => element('div', {className: 'code'},
    element('div', {className: 'bar'}, element('span', {}, `calls ${call.function.name}`)),
    element('pre', {tabIndex: 0}, element('code', {}, pretty(call.function.arguments))))));
}

function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

function statistics({usage, seconds, first}) {
  if (!usage) return '';
  const writing = seconds - first;
  const speed = writing > 0 && usage.completion_tokens > 1 ? `, ${((usage.completion_tokens - 1) / writing).toFixed(1)} tokens/s` : '';
  const cached = (usage.prompt_tokens_details || {}).cached_tokens;
  return `${usage.prompt_tokens} tokens read${cached ? ` (${cached} from the cache)` : ''}, ` +
         `${usage.completion_tokens} written, first after ${first.toFixed(2)} s${speed}`;
}

function button(label, title, action) {
  const made = element('button', {type: 'button', className: 'quiet', title}, label);
  made.addEventListener('click', () => action(made));
  return made;
}

function addActions(made, {edit, retry, remove, answerCall}) {
  const {message} = made;
  const buttons = [button('Copy', 'Copy the text', (self) => copyText(message.content, self)),
                   button('Edit', 'Change the text', () => startEdit(made, edit))];
  if (message.role === 'assistant') buttons.push(button('Retry', 'Write this answer again', () => retry(message)));
  if (message.calls && message.calls.length) buttons.push(button('Answer the call', 'Say what the tool gave', () => answerCall(message)));
  buttons.push(button('Delete', 'Delete this message and what follows', () => remove(message)));
  made.querySelector('.actions').replaceChildren(...buttons);
}

function startEdit(made, edit) {
  const {message} = made;
  const area = element('textarea', {value: message.content, rows: Math.min(16, message.content.split('\n').length + 1)});
  area.setAttribute('aria-label', 'Text of the message');
  const save = button('Save', 'Keep the change', () => edit(message, area.value, false));
  const send = button('Save and send', 'Keep the change and ask again', () => edit(message, area.value, true));
  const cancel = button('Cancel', 'Leave it as it was', () => showMessage(made));
  area.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') showMessage(made);
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) (message.role === 'assistant' ? save : send).click();
  });
  made.querySelector('.body').replaceChildren(area);
  made.querySelector('.actions').replaceChildren(...(message.role === 'assistant' ? [save, cancel] : [send, save, cancel]));
  area.focus();
}
