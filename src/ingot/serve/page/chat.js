import {chatBody, listModels, streamChat} from './api.js';
import {byId, element, openFile, saveFile} from './dom.js';
import {showLoad} from './load.js';
import {messageElement, showMessage} from './message.js';
import {deleteConversation, exportConversations, importConversations, listConversations, loadConversation, newConversation,
        saveConversation, saveSettings, settings} from './store.js';

const largestFile = 1 << 20;
const state = {conversation: newConversation(), writing: null, files: []};

function notice(text) {
  byId('notice').textContent = text;
  byId('notice').hidden = !text;
}

function keep() {
  try {
    if (state.conversation.messages.length || state.conversation.system) saveConversation(state.conversation);
  } catch {
    notice('The browser has no more room: export and delete conversations to keep this one.');
  }
  showList();
}

function showList() {
  const entries = listConversations().map(({id, title}) => {
    const open = element('button', {type: 'button', className: 'title'}, title || 'Untitled');
    open.addEventListener('click', () => openConversation(id));
    const remove = element('button', {type: 'button', className: 'icon', title: 'Delete'}, '✕');
    remove.setAttribute('aria-label', `Delete ${title || 'Untitled'}`);
    remove.addEventListener('click', () => removeConversation(id, title));
    const entry = element('li', {}, open, remove);
    if (id === state.conversation.id) open.setAttribute('aria-current', 'true');
    return entry;
  });
  byId('conversations').replaceChildren(...entries);
}

function removeConversation(id, title) {
  if (!confirm(`Delete “${title || 'Untitled'}”?`)) return;
  deleteConversation(id);
  id === state.conversation.id ? startConversation() : showList();
}

function startConversation() {
  stop();
  state.conversation = newConversation();
  showConversation();
}

function openConversation(id) {
  if (id === state.conversation.id) return setMenu(false);
  stop();
  state.conversation = loadConversation(id) || newConversation();
  showConversation();
}

function showConversation() {
  const {messages} = state.conversation;
  byId('messages').replaceChildren(...messages.map((message) => messageElement(message, actions)));
  if (!messages.length) byId('messages').append(element('p', {className: 'empty'}, 'What would you like to know?'));
  byId('system').value = state.conversation.system;
  document.title = state.conversation.title || 'Ingot';
  setMenu(false);
  notice('');
  showList();
  follow(true);
  byId('input').focus();
}

// Stays at the end where the reader is there.
const scroller = document.scrollingElement;
const atEnd = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
function follow(was) {
  if (was) scroller.scrollTop = scroller.scrollHeight;
}

function append(message) {
  state.conversation.messages.push(message);
  const made = messageElement(message, actions);
  byId('messages').querySelector('.empty')?.remove();
  byId('messages').append(made);
  return made;
}

// As the API wants them: without what only this page shows.
function apiMessages() {
  const {system, messages} = state.conversation;
  const sent = system ? [{role: 'system', content: system}] : [];
  for (const message of messages) {
    if (message.role === 'tool') sent.push({role: 'tool', tool_call_id: message.tool_call_id, content: message.content});
    else if (message.calls?.length) sent.push({role: 'assistant', content: message.content, tool_calls: message.calls});
    else if (message.role === 'user' || message.content) sent.push({role: message.role, content: message.content});
  }
  return sent;
}

// Half a character gives no text: it comes with the token that completes it.
function tokenOf({token, logprob, bytes, top_logprobs: top}, decoder) {
  return {text: decoder.decode(new Uint8Array(bytes), {stream: true}), token, logprob,
          top: top.map((each) => ({token: each.token, logprob: each.logprob}))};
}

function take(message, chunk, decoder) {
  if (chunk.usage) message.usage = chunk.usage;
  for (const {delta, logprobs, finish_reason: reason} of chunk.choices) {
    message.content += delta.content || '';
    message.reasoning += delta.reasoning_content || '';
    if (delta.tool_calls) message.calls.push(...delta.tool_calls.map(({id, type, function: called}) => ({id, type, function: called})));
    if (settings.probabilities && logprobs) message.tokens.push(...logprobs.content.map((token) => tokenOf(token, decoder)));
    if (reason) message.reason = reason;
  }
}

async function ask() {
  if (state.writing) return;
  notice('');
  const abort = new AbortController();
  const message = {role: 'assistant', content: '', reasoning: '', error: '', calls: [], tokens: []};
  const start = performance.now(), seconds = () => (performance.now() - start) / 1000;
  const sent = apiMessages(), decoder = new TextDecoder();
  const {conversation} = state;
  const made = append(message);
  state.writing = abort;
  setWriting(true);
  let frame = 0;
  const draw = () => {
    frame = 0;
    const was = atEnd();
    showMessage(made, true);
    follow(was);
  };
  draw();
  follow(true);
  try {
    await streamChat(chatBody(byId('model').value, sent), abort.signal, (chunk) => {
      take(message, chunk, decoder);
      if (message.first === undefined && (message.content || message.reasoning)) message.first = seconds();
      frame ||= requestAnimationFrame(draw);
    });
  } catch (error) {
    if (error.name !== 'AbortError') message.error = error.message;
    if (error.status === 401) askForKey();
  }
  cancelAnimationFrame(frame);
  message.seconds = seconds();
  message.first ??= message.seconds;
  // Tokens stand for the text where they are all of it.
  if (message.tokens.map(({text}) => text).join('').trim() !== message.content.trim()) message.tokens = [];
  if (message.reason === 'length') message.error ||= 'The answer was cut off: it reached its most tokens.';
  if (state.writing === abort) {
    state.writing = null;
    setWriting(false);
  }
  if (conversation !== state.conversation) {  // the reader has gone on to another one
    saveConversation(conversation);
    return showList();
  }
  made.querySelector('.body').replaceChildren();
  const was = atEnd();
  showMessage(made);
  follow(was);
  keep();
}

function setWriting(writing) {
  byId('messages').setAttribute('aria-busy', String(writing));
  byId('send').hidden = writing;
  byId('stop').hidden = !writing;
}

function stop() {
  if (!state.writing) return;
  state.writing.abort();
  state.writing = null;
  setWriting(false);
}

function send() {
  const text = byId('input').value.trim();
  if (state.writing || (!text && !state.files.length)) return;
  const files = state.files.map(({name, content}) => `${name}:\n\`\`\`\n${content}\n\`\`\``);
  append({role: 'user', content: [...files, text].filter(Boolean).join('\n\n')});
  byId('input').value = '';
  state.files = [];
  showFiles();
  fitInput();
  keep();
  ask();
}

// What follows a message goes when it is changed: it answered another one.
function cutFrom(index) {
  stop();
  state.conversation.messages.length = index;
  const shown = byId('messages');
  while (shown.children.length > index) shown.lastElementChild.remove();
}

const indexOf = (message) => state.conversation.messages.indexOf(message);
const actions = {
  edit(message, text, sends) {
    message.content = text;
    if (message.tokens) message.tokens = [];
    if (sends) cutFrom(indexOf(message) + 1);
    const was = scroller.scrollTop;
    showConversation();
    if (!sends) scroller.scrollTop = was;
    keep();
    if (sends) ask();
  },
  retry(message) {
    cutFrom(indexOf(message));
    ask();
  },
  remove(message) {
    cutFrom(indexOf(message));
    keep();
    if (!state.conversation.messages.length) showConversation();
  },
  answerCall(message) {
    cutFrom(indexOf(message) + 1);
    for (const call of message.calls) {
      const given = prompt(`What did ${call.function.name} give?`, '');
      if (given === null) return;
      append({role: 'tool', tool_call_id: call.id, content: given});
    }
    keep();
    ask();
  },
};

function fitInput() {
  const input = byId('input');
  input.style.height = 'auto';
  input.style.height = `${Math.min(input.scrollHeight, innerHeight / 2)}px`;
}

function showFiles() {
  byId('attached').replaceChildren(...state.files.map((file) => {
    const remove = element('button', {type: 'button', className: 'icon'}, '✕');
    remove.setAttribute('aria-label', `Remove ${file.name}`);
    remove.addEventListener('click', () => {
      state.files = state.files.filter((each) => each !== file);
      showFiles();
    });
    return element('li', {}, file.name, remove);
  }));
}

async function attach() {
  const file = await openFile(byId('file'), '');
  if (!file) return;
  if (file.size > largestFile) return notice(`${file.name} has more than 1 MiB.`);
  const content = await file.text();
  if (content.includes('\0')) return notice(`${file.name} is not a text file.`);
  state.files.push({name: file.name, content});
  showFiles();
}

async function importFile() {
  const file = await openFile(byId('file'), '.json');
  if (!file) return;
  try {
    const count = importConversations(await file.text());
    notice(`${count} conversations were read.`);
  } catch (error) {
    notice(`${file.name} cannot be read: ${error.message}`);
  }
  showList();
}

async function fillModels() {
  try {
    const models = await listModels();
    byId('model').replaceChildren(...models.map(({id}) => element('option', {value: id}, id)));
    if (models.some(({id}) => id === settings.model)) byId('model').value = settings.model;
  } catch (error) {
    if (error.status === 401) return askForKey();
    notice(`The server does not answer: ${error.message}`);
  }
}

function askForKey() {
  notice('This server wants an API key: enter it in the settings.');
  showSettings();
  document.querySelector('[data-setting="key"]').focus();
}

function showSettings() {
  if (!byId('settings').open) byId('settings').showModal();
}

function bindSettings() {
  for (const input of document.querySelectorAll('[data-setting]')) {
    const name = input.dataset.setting, checks = input.type === 'checkbox';
    if (settings[name] !== undefined) checks ? (input.checked = settings[name]) : (input.value = settings[name]);
    input.addEventListener('change', () => {
      settings[name] = checks ? input.checked : input.value.trim();
      saveSettings();
      if (name === 'key') fillModels();
    });
  }
  byId('model').addEventListener('change', () => {
    settings.model = byId('model').value;
    saveSettings();
  });
  byId('system').addEventListener('change', () => {
    state.conversation.system = byId('system').value;
    keep();
  });
}

function setMenu(open) {
  document.body.classList.toggle('menu', open);
  byId('menu').setAttribute('aria-expanded', String(open));
}

function bindTheme() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const now = () => settings.theme || (dark.matches ? 'dark' : 'light');
  const show = () => { document.documentElement.dataset.theme = now(); };
  dark.addEventListener('change', show);
  byId('theme').addEventListener('click', () => {
    settings.theme = now() === 'dark' ? 'light' : 'dark';
    saveSettings();
    show();
  });
  show();
}

// What else the model thought of, beside the token that the pointer or the keyboard is at.
function bindAlternatives() {
  const shown = byId('alternatives');
  const percent = (logprob) => `${(100 * Math.exp(logprob)).toFixed(1)} %`;
  const show = (event) => {
    const {token} = event.target;
    shown.hidden = !token;
    if (!token) return;
    const rows = [token, ...token.top.filter((each) => each.token !== token.token)];
    shown.replaceChildren(...rows.map((each) => element('div', {}, element('code', {}, JSON.stringify(each.token)), ` ${percent(each.logprob)}`)));
    const at = event.target.getBoundingClientRect();
    shown.style.left = `${Math.max(4, Math.min(at.left, innerWidth - shown.offsetWidth - 4))}px`;
    const below = at.bottom + 6 + shown.offsetHeight < innerHeight;
    shown.style.top = `${below ? at.bottom + 6 : at.top - 6 - shown.offsetHeight}px`;
  };
  byId('messages').addEventListener('pointerover', show);
  byId('messages').addEventListener('focusin', show);
  byId('messages').addEventListener('pointerleave', () => { shown.hidden = true; });
}

function bindKeys() {
  byId('input').addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !document.querySelector('dialog[open]')) {
      stop();
      setMenu(false);
    }
    if (event.altKey && event.code === 'KeyN') startConversation();
  });
}

function bindButtons() {
  byId('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    send();
  });
  byId('input').addEventListener('input', fitInput);
  byId('stop').addEventListener('click', stop);
  byId('new').addEventListener('click', startConversation);
  byId('menu').addEventListener('click', () => setMenu(true));
  byId('close-menu').addEventListener('click', () => setMenu(false));
  byId('page').addEventListener('click', (event) => { if (!byId('menu').contains(event.target)) setMenu(false); });
  byId('attach').addEventListener('click', attach);
  byId('import').addEventListener('click', importFile);
  byId('export').addEventListener('click', () => saveFile('conversations.json', exportConversations()));
  byId('show-settings').addEventListener('click', showSettings);
  byId('show-load').addEventListener('click', showLoad);
  for (const dialog of document.querySelectorAll('dialog')) {
    dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
  }
  addEventListener('storage', showList);  // another tab
}

bindTheme();
bindSettings();
bindAlternatives();
bindKeys();
bindButtons();
showConversation();
fillModels();
