export const byId = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

/// The button says for a moment that it was done.
export async function copyText(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {  // no clipboard without TLS, away from localhost
    const area = element('textarea', {value: text, className: 'hidden'});
    document.body.append(area);
    area.select();
    button.textContent = document.execCommand('copy') ? 'Copied' : 'Not copied';
    area.remove();
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}

export function saveFile(name, text) {
  const url = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
  element('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/// The file that the reader chooses; nothing where it is too large or none.
export function openFile(input, accept) {
  return new Promise((resolve) => {
    input.accept = accept;
    input.value = '';
    input.onchange = () => resolve(input.files[0]);
    input.oncancel = () => resolve(undefined);
    input.click();
  });
}
