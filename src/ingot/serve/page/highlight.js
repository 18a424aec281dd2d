// Strings, comments, numbers and keywords, alike for all languages that are written often.
import {element} from './dom.js';

const words = new Set(('abstract and as assert async auto await bool boolean break byte case catch char class const constexpr ' +
  'continue def default defer del delete do double elif else end enum except export extends extern false False final finally ' +
  'float fn for foreach from func function global go goto if impl implements import in inline instanceof int interface is ' +
  'lambda let local long loop match mod module move mut namespace new nil None not null nullptr or override package pass ' +
  'private protected pub public raise return self short signed sizeof static str string struct super switch template then ' +
  'this throw trait true True try type typedef typename union unsafe unsigned use using var virtual void volatile when ' +
  'where while with yield').split(' '));
const sql = new Set(('select from where insert into values update set delete create table drop alter join left right inner ' +
  'outer on group by order having limit as and or not null primary key').split(' '));
const hashComments = /^(py|python|sh|bash|shell|zsh|console|yaml|yml|toml|ini|rb|ruby|perl|r|make|makefile|cmake|dockerfile|conf)$/;
const dashComments = /^(sql|lua|haskell|hs|elm|ada)$/;
const plain = /^(text|txt|plain|plaintext|markdown|md|console|output|)$/;

export function highlight(code, language) {
  const name = language.toLowerCase();
  if (plain.test(name) || code.length > 50000) return [code];
  const comment = hashComments.test(name) ? '#[^\\n]*' : dashComments.test(name) ? '--[^\\n]*'
                : /^(html|xml|svg)$/.test(name) ? '<!--[\\s\\S]*?-->' : '//[^\\n]*|/\\*[\\s\\S]*?\\*/';
  const pattern = new RegExp(`(${comment})|("""[\\s\\S]*?"""|"(?:[^"\\\\\\n]|\\\\.)*"|'(?:[^'\\\\\\n]|\\\\.)*'|\`(?:[^\`\\\\]|\\\\.)*\`)` +
                             '|\\b(\\d[\\w.]*)\\b|\\b([A-Za-z_]\\w*)\\b', 'g');
  const nodes = [];
  let last = 0;
  for (const found of code.matchAll(pattern)) {
    const known = found[4] !== undefined && (name === 'sql' ? sql.has(found[4].toLowerCase()) : words.has(found[4]));
    const kind = found[1] !== undefined ? 'comment' : found[2] !== undefined ? 'string' : found[3] !== undefined ? 'number'
               : known ? 'keyword' : '';
    if (!kind) continue;
    if (found.index > last) nodes.push(code.slice(last, found.index));
    nodes.push(element('span', {className: kind}, found[0]));
    last = found.index + found[0].length;
  }
  nodes.push(code.slice(last));
  return nodes;
}
