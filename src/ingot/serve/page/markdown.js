// Markdown as elements. Text only ever becomes text nodes, so nothing that a model writes can run.
import {copyText, element} from './dom.js';
import {highlight} from './highlight.js';

const deepest = 12;  // of lists and quotes within one another
const item = /^(\s*)([-*+]|\d{1,9}[.)])(\s+|$)/;
const fence = /^\s{0,3}(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/;
const rule = /^\s{0,3}([-*_])(\s*\1){2,}\s*$/;
const heading = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const separator = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/// Shows `text` in `to`. Blocks that have not changed since the last time keep their elements.
export function showMarkdown(to, text) {
  const blocks = split(text.split('\n'));
  blocks.forEach((block, i) => {
    const source = block.kind + block.lines.join('\n');
    const old = to.children[i];
    if (old && old.source === source) return;
    const made = render(block, 0);
    made.source = source;
    old ? old.replaceWith(made) : to.append(made);
  });
  while (to.children.length > blocks.length) to.lastElementChild.remove();
}

function split(lines) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (lines[at].trim() === '') { ++at; continue; }
    const kind = kindOf(lines, at);
    const end = endOf(kind, lines, at);
    blocks.push({kind, lines: lines.slice(at, end)});
    at = end;
  }
  return blocks;
}

function kindOf(lines, at) {
  const line = lines[at];
  if (fence.test(line)) return 'code';
  if (heading.test(line)) return 'heading';
  if (rule.test(line)) return 'rule';
  if (/^\s{0,3}>/.test(line)) return 'quote';
  if (item.test(line)) return 'list';
  if (line.includes('|') && at + 1 < lines.length && lines[at + 1].includes('-') && separator.test(lines[at + 1])) return 'table';
  return 'paragraph';
}

function endOf(kind, lines, at) {
  let end = at + 1;
  if (kind === 'heading' || kind === 'rule') return end;
  if (kind === 'code') {
    const mark = lines[at].match(fence)[1];
    while (end < lines.length && !isFenceEnd(lines[end], mark)) ++end;
    return Math.min(end + 1, lines.length);
  }
  if (kind === 'list') return endOfList(lines, at);
  while (end < lines.length && lines[end].trim() !== '') {
    if (kind === 'quote' ? !lines[end].trimStart().startsWith('>') : kind === 'table' ? !lines[end].includes('|')
                                                                                      : kindOf(lines, end) !== 'paragraph')
      break;
    ++end;
  }
  return end;
}

const isFenceEnd = (line, mark) => {
  const trimmed = line.trim();
  return trimmed.length >= mark.length && trimmed === mark[0].repeat(trimmed.length);
};

// Items, what is indented below them, and blank lines between.
function endOfList(lines, at) {
  const ordered = /\d/.test(lines[at].match(item)[2]);
  let end = at + 1;
  for (let next = end; next < lines.length; ++next) {
    const line = lines[next], found = line.match(item), blank = line.trim() === '';
    if (blank) continue;
    const inside = /^\s{2,}/.test(line) || (found && /\d/.test(found[2]) === ordered && !rule.test(line));
    const lazy = next === end && kindOf(lines, next) === 'paragraph';
    if (!inside && !lazy) break;
    end = next + 1;
  }
  return end;
}

function render({kind, lines}, depth) {
  if (depth > deepest) return element('p', {}, lines.join('\n'));
  switch (kind) {
    case 'code': return codeBlock(lines);
    case 'heading': {
      const [, marks, text] = lines[0].match(heading);
      return element(`h${Math.min(6, marks.length + 2)}`, {}, ...inline(text));
    }
    case 'rule': return element('hr');
    case 'quote': return element('blockquote', {}, ...renderAll(lines.map((line) => line.replace(/^\s*> ?/, '')), depth + 1));
    case 'list': return list(lines, depth);
    case 'table': return table(lines);
    default: return element('p', {}, ...inline(lines.map((line) => line.trimStart()).join('\n')));
  }
}

const renderAll = (lines, depth) => split(lines).map((block) => render(block, depth));

function list(lines, depth) {
  const first = lines[0].match(item);
  const ordered = /\d/.test(first[2]);
  const made = element(ordered ? 'ol' : 'ul');
  if (ordered) made.start = parseInt(first[2], 10);
  for (let at = 0; at < lines.length;) {
    const found = lines[at].match(item);
    const width = found ? found[0].length : 0;
    let end = at + 1;
    while (end < lines.length) {
      const next = lines[end].match(item);
      if (next && next[1].length <= first[1].length + 1) break;
      ++end;
    }
    const own = [lines[at].slice(width)];
    for (const line of lines.slice(at + 1, end)) own.push(line.replace(new RegExp(`^\\s{0,${Math.max(2, width)}}`), ''));
    made.append(listItem(own, depth));
    at = end;
  }
  return made;
}

function listItem(lines, depth) {
  const made = element('li');
  const task = lines[0].match(/^\[([ xX])\]\s+/);
  if (task) {
    lines[0] = lines[0].slice(task[0].length);
    made.className = 'task';
    made.append(element('input', {type: 'checkbox', disabled: true, checked: task[1] !== ' '}), ' ');
  }
  const parts = renderAll(lines, depth + 1);
  if (parts.length && parts[0].tagName === 'P') made.append(...parts[0].childNodes, ...parts.slice(1));
  else made.append(...parts);
  return made;
}

function cells(line) {
  const parts = line.trim().replace(/^\|/, '').replace(/\|$/, '').split(/(?<!\\)\|/);
  return parts.map((part) => part.trim().replaceAll('\\|', '|'));
}

function table(lines) {
  const align = cells(lines[1]).map((mark) => (mark.endsWith(':') ? (mark.startsWith(':') ? 'center' : 'right') : ''));
  const row = (line, tag) => {
    const made = element('tr');
    cells(line).slice(0, align.length).forEach((text, i) => {
      const cell = element(tag, {}, ...inline(text));
      if (align[i]) cell.className = align[i];
      made.append(cell);
    });
    return made;
  };
  return element('div', {className: 'table', tabIndex: 0}, element('table', {}, element('thead', {}, row(lines[0], 'th')),
                                                     element('tbody', {}, ...lines.slice(2).map((line) => row(line, 'td')))));
}

function codeBlock(lines) {
  const [, mark, language] = lines[0].match(fence);
  const closed = lines.length > 1 && isFenceEnd(lines[lines.length - 1], mark);
  const code = lines.slice(1, closed ? -1 : undefined).join('\n');
  const copy = element('button', {type: 'button', className: 'quiet'}, 'Copy');
  copy.addEventListener('click', () => copyText(code, copy));
  return element('div', {className: 'code'},
                 element('div', {className: 'bar'}, element('span', {}, language || 'text'), copy),
                 element('pre', {tabIndex: 0}, element('code', {}, ...highlight(code, language))));
}

const marks = ['***', '**', '__', '~~', '*', '_'];
const tags = {'**': 'strong', '__': 'strong', '*': 'em', '_': 'em', '~~': 'del'};
const isWord = (c) => c !== undefined && /[\p{L}\p{N}]/u.test(c);
const isSpace = (c) => c === undefined || /\s/.test(c);

/// The nodes of a paragraph's text.
function inline(text, depth = 0) {
  const nodes = [];
  let plain = '';
  const push = (node) => {
    if (plain) nodes.push(plain);
    plain = '';
    nodes.push(node);
  };
  for (let at = 0; at < text.length;) {
    const found = depth < deepest ? special(text, at, depth) : null;
    if (found) {
      found.node === undefined ? (plain += found.text) : push(found.node);
      at = found.end;
    } else if (text[at] === '\n') {
      push(element('br'));
      ++at;
    } else {
      plain += text[at++];
    }
  }
  if (plain) nodes.push(plain);
  return nodes;
}

function special(text, at, depth) {
  switch (text[at]) {
    case '\\': // brackets with a backslash are mathematics, which stays as it is
      return /[\\`*_{}#+.!~|<>-]/.test(text[at + 1] || '') ? {text: text[at + 1], end: at + 2} : null;
    case '`': return codeSpan(text, at);
    case '[': return link(text, at, depth);
    case '<': case 'h': return bareLink(text, at);
    case '*': case '_': case '~': return emphasis(text, at, depth);
    default: return null;
  }
}

function codeSpan(text, at) {
  let end = at;
  while (text[end] === '`') ++end;
  const mark = text.slice(at, end);
  for (let close = text.indexOf(mark, end); close >= 0; close = text.indexOf(mark, close)) {
    let after = close;
    while (text[after] === '`') ++after;
    if (after - close === mark.length) {
      const code = text.slice(end, close).replaceAll('\n', ' ');
      return {node: element('code', {}, /^ .*[^ ].* $/.test(code) ? code.slice(1, -1) : code), end: after};
    }
    close = after;
  }
  return {text: mark, end};
}

// Links lead to the web or to mail, nowhere else.
function anchor(url, content) {
  if (!/^(https?:\/\/|mailto:)/i.test(url)) return null;
  return element('a', {href: url, target: '_blank', rel: 'noopener noreferrer nofollow'}, ...content);
}

function link(text, at, depth) {
  let close = at + 1;
  for (let open = 1; close < text.length; ++close) {
    if (text[close] === '\\') ++close;
    else if (text[close] === '[') ++open;
    else if (text[close] === ']' && --open === 0) break;
  }
  if (text[close + 1] !== '(') return null;
  const target = text.slice(close + 2).match(/^\s*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+"[^"]*")?\s*\)/);
  const made = target && anchor(target[1], inline(text.slice(at + 1, close), depth + 1));
  return made ? {node: made, end: close + 2 + target[0].length} : null;
}

function bareLink(text, at) {
  if (at > 0 && isWord(text[at - 1])) return null;
  const found = text.slice(at, at + 2000).match(/^<?(https?:\/\/[^\s<>"]*[^\s<>"'.,;:!?)\]*_])/);
  if (!found) return null;
  const end = at + found[0].length;
  const closes = text[at] === '<' && text[end] === '>';
  return {node: anchor(found[1], [found[1]]), end: closes ? end + 1 : end};
}

function emphasis(text, at, depth) {
  const mark = marks.find((each) => text.startsWith(each, at));
  if (!mark) return null;
  const start = at + mark.length;
  const within = isWord(text[at - 1]) && (mark[0] === '_' || /\d/.test(text[at - 1]));  // snake_case, 2*3*4
  if (isSpace(text[start]) || within) return {text: mark, end: start};
  for (let close = text.indexOf(mark, start + 1); close >= 0; close = text.indexOf(mark, close + 1)) {
    const after = close + mark.length;
    const longer = mark.length === 1 && (text[after] === mark || text[close - 1] === mark);
    if (isSpace(text[close - 1]) || longer || (mark[0] === '_' && isWord(text[after]))) continue;
    const content = inline(text.slice(start, close), depth + 1);
    const node = mark === '***' ? element('strong', {}, element('em', {}, ...content)) : element(tags[mark], {}, ...content);
    return {node, end: after};
  }
  return {text: mark, end: start};
}
