// Conversations and settings, in this browser alone.
const prefix = 'ingot.conversation.';

/// Throws where the browser has no more room.
function put(key, value) {
  localStorage.setItem(key, JSON.stringify(value));
}

function get(key) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

export function newConversation() {
  const id = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, '0')).join('');
  return {id, title: '', updated: Date.now(), system: '', messages: []};
}

export function saveConversation(conversation) {
  conversation.updated = Date.now();
  const first = conversation.messages.find((message) => message.role === 'user');
  conversation.title = first ? first.content.trim().replace(/\s+/g, ' ').slice(0, 60) : '';
  put(prefix + conversation.id, conversation);
}

export const loadConversation = (id) => checked(get(prefix + id));
export const deleteConversation = (id) => localStorage.removeItem(prefix + id);

/// The latest first.
export function listConversations() {
  const ids = Object.keys(localStorage).filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length));
  return ids.map(loadConversation).filter(Boolean).sort((a, b) => b.updated - a.updated);
}

export const exportConversations = () => JSON.stringify({ingot_conversations: listConversations()}, null, 1);

/// How many came in. Throws where the text has none.
export function importConversations(text) {
  const given = JSON.parse(text).ingot_conversations;
  if (!Array.isArray(given)) throw new Error('the file holds no conversations of this page');
  const good = given.map(checked).filter(Boolean);
  for (const conversation of good) put(prefix + conversation.id, conversation);
  return good.length;
}

// What a file or another version of this page left may be anything.
function checked(value) {
  if (!value || typeof value.id !== 'string' || !/^[0-9a-f]{16}$/.test(value.id) || !Array.isArray(value.messages)) return null;
  const string = (text) => (typeof text === 'string' ? text : '');
  const messages = value.messages.filter((m) => m && ['user', 'assistant', 'tool'].includes(m.role))
    .map((m) => ({...m, content: string(m.content), reasoning: string(m.reasoning), error: string(m.error),
                  calls: Array.isArray(m.calls) ? m.calls : [], tokens: (Array.isArray(m.tokens) ? m.tokens : []).filter((token) => token && Array.isArray(token.top))}));
  return {id: value.id, title: string(value.title), updated: Number(value.updated) || 0, system: string(value.system), messages};
}

export const settings = get('ingot.settings') || {};
export const saveSettings = () => put('ingot.settings', settings);
