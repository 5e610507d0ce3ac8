'use strict';
// Draws the data of the page: layers, a row for each unit of each core, bytes of DDR. Zoom by wheel, move by dragging.
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const root = document.getElementById('timeline');
  const add = (tag, text) => {
    const made = document.createElement(tag);
    if (text) made.textContent = text;
    root.append(made);
    return made;
  };
  const colours = {
    LOAD: '#1f77b4', SAVE: '#2ca02c', CONV: '#e8862e', MVM: '#e8862e', MISC: '#9467bd', ELE: '#9467bd',
    token: '#c9ced6', fetch: '#d62728', decoder: '#e7b3b3', queue: '#b8860b', drain: '#8f99a6', sync: '#e377c2',
    over: '#00000000'};
  const says = {
    token: 'waits for a token', fetch: 'waits for instructions from DDR', decoder: 'waits for the decoder',
    queue: 'behind a full queue', drain: 'waits for other units of its core', sync: 'waits for other cores',
    over: 'the core is at its end'};
  const nameOf = (kind) => kind > 0 ? data.opcodes[kind] : data.stalls[-kind];

  // Spans of each row as arrays of six numbers, from absolute cycles.
  const rows = data.rows.map((numbers) => {
    const spans = [];
    for (let i = 0, at = 0; i < numbers.length; i += 6) {
      at += numbers[i];
      spans.push([at, at + numbers[i + 1], numbers[i + 2], numbers[i + 3], numbers[i + 4], numbers[i + 5]]);
    }
    return spans;
  });

  const legend = add('p');
  for (const name of Object.keys(colours)) {
    if (name === 'over' || !rows.some((spans) => spans.some((s) => nameOf(s[2]) === name))) continue;
    const box = document.createElement('span');
    box.style.cssText = 'display:inline-block;width:12px;height:12px;margin:0 4px 0 14px;background:' + colours[name];
    legend.append(box, says[name] || name);
  }
  const bar = add('p');
  for (const [text, by] of [['+', 2], ['\u2212', 0.5], ['all', 0]]) {
    const button = document.createElement('button');
    button.textContent = text;
    button.style.marginRight = '6px';
    button.addEventListener('click', () => by ? zoom(by, (left + width / 2 * scale)) : all());
    bar.append(button);
  }
  const canvas = add('canvas');
  const note = add('p', 'Point at something.');
  note.className = 'note';
  note.style.minHeight = '3em';

  const label = 110, row = 12, gap = 6, top = 40, layerRow = 18, bytesRow = 70;
  const rowY = (r) => top + layerRow + 8 + r * row + Math.floor(r / data.units.length) * gap;
  const bytesY = rowY(rows.length) + 10, height = bytesY + bytesRow + 20;
  const most = Math.max(...data.rates, 1e-9);
  let width = 800, left = 0, scale = 1;  // cycles at the left border, cycles of a pixel

  const clamp = () => {
    scale = Math.min(Math.max(scale, 1 / 8), data.cycles / width);
    left = Math.min(Math.max(left, 0), Math.max(data.cycles - width * scale, 0));
  };
  const all = () => { left = 0; scale = data.cycles / width; draw(); };
  const zoom = (by, at) => {
    left = at - (at - left) / by;
    scale /= by;
    clamp();
    draw();
  };
  const x = (cycle) => label + (cycle - left) / scale;
  const inside = (from, to) => to >= left && from <= left + width * scale;
  // The first span that ends behind a cycle: rows are in the order of their ends.
  const firstAfter = (spans, cycle) => {
    let low = 0, high = spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans[middle][1] < cycle) low = middle + 1; else high = middle;
    }
    return low;
  };

  const drawAxis = (pen, soft) => {
    const cycles = width * scale;
    let step = Math.pow(10, Math.floor(Math.log10(cycles / 4)));
    if (cycles / step > 20) step *= 5; else if (cycles / step > 8) step *= 2;
    pen.fillStyle = pen.strokeStyle = soft;
    for (let at = Math.ceil(left / step) * step; at <= left + cycles; at += step) {
      pen.fillRect(x(at), top - 6, 1, 6);
      pen.fillText(at.toLocaleString('en') + ' cycles', x(at) + 3, top - 20);
      pen.fillText((at / data.mhz).toLocaleString('en', {maximumSignificantDigits: 6}) + ' \u00b5s', x(at) + 3, top - 8);
    }
  };
  const drawLayers = (pen) => {
    data.layers.forEach(([from, to, name], i) => {
      if (!to || !inside(from, to)) return;
      const begin = Math.max(x(from), label), size = Math.max(Math.min(x(to), label + width) - begin, 1);
      pen.fillStyle = i % 2 ? '#7f93a8' : '#a9b7c6';
      pen.fillRect(begin, top, size, layerRow);
      if (size < 24) return;
      pen.save();
      pen.beginPath();
      pen.rect(begin, top, size - 2, layerRow);
      pen.clip();
      pen.fillStyle = '#10161d';
      pen.fillText(name, begin + 3, top + 13);
      pen.restore();
    });
  };
  const drawRows = (pen, text) => {
    rows.forEach((spans, r) => {
      const y = rowY(r);
      pen.fillStyle = text;
      const unit = r % data.units.length;
      pen.fillText((unit ? '' : 'core ' + Math.floor(r / data.units.length)), 0, y + row - 2);
      pen.fillText(data.units[unit], 54, y + row - 2);
      for (let i = firstAfter(spans, left); i < spans.length && spans[i][0] <= left + width * scale; i++) {
        const [from, to, kind] = spans[i];
        const begin = Math.max(x(from), label), end = Math.min(x(to), label + width);
        pen.fillStyle = colours[nameOf(kind)];
        pen.fillRect(begin, y + (kind > 0 ? 1 : 4), Math.max(end - begin, kind > 0 ? 0.5 : 0.2), kind > 0 ? row - 2 : row - 8);
      }
    });
  };
  const drawBytes = (pen, text) => {
    const part = data.cycles / data.rates.length;
    pen.fillStyle = text;
    pen.fillText('DDR, GB/s', 0, bytesY + 12);
    pen.fillText(most.toPrecision(3), 54, bytesY + 26);
    pen.fillStyle = '#1f77b4';
    data.rates.forEach((rate, i) => {
      if (!inside(i * part, (i + 1) * part)) return;
      const begin = Math.max(x(i * part), label), end = Math.min(x((i + 1) * part), label + width);
      pen.fillRect(begin, bytesY + bytesRow * (1 - rate / most), Math.max(end - begin, 0.5), bytesRow * rate / most);
    });
  };
  const draw = () => {
    const style = getComputedStyle(document.body), pixels = window.devicePixelRatio || 1;
    canvas.width = (label + width) * pixels;
    canvas.height = height * pixels;
    canvas.style.width = label + width + 'px';
    canvas.style.height = height + 'px';
    const pen = canvas.getContext('2d');
    pen.scale(pixels, pixels);
    pen.font = '11px system-ui,sans-serif';
    drawAxis(pen, style.color);
    drawLayers(pen);
    drawRows(pen, style.color);
    drawBytes(pen, style.color);
  };
  const resize = () => {
    const whole = scale >= data.cycles / width * 0.999;
    width = Math.max(root.clientWidth - label - 4, 200);
    if (whole) all(); else { clamp(); draw(); }
  };

  const spell = (cycle, y) => {
    if (y >= top && y < top + layerRow) {
      const found = data.layers.find(([from, to]) => to && cycle >= from && cycle <= to);
      return found ? `${found[2]}: cycles ${found[0].toLocaleString('en')} to ${found[1].toLocaleString('en')}` : '';
    }
    const r = rows.findIndex((_, i) => y >= rowY(i) && y < rowY(i) + row);
    if (r < 0) return '';
    const near = scale, spans = rows[r], i = firstAfter(spans, cycle - near);
    if (i >= spans.length || spans[i][0] > cycle + near) return '';
    const [from, to, kind, layer, instruction, bytes] = spans[i], name = nameOf(kind);
    const where = `core ${Math.floor(r / data.units.length)}, ${data.units[r % data.units.length]}: `;
    const time = `cycles ${from.toLocaleString('en')} to ${to.toLocaleString('en')} (${(to - from).toLocaleString('en')})`;
    if (kind < 0) return `${where}${says[name]}, ${time}`;
    const moved = bytes ? `, ${bytes.toLocaleString('en')} bytes, ${(bytes / (to - from)).toPrecision(3)} a cycle` : '';
    return `${where}${name}, instruction ${instruction}, ${time}${moved}, layer ${(data.layers[layer] || [])[2] || layer}`;
  };
  let held = null;
  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, left + (event.offsetX - label) * scale);
  }, {passive: false});
  canvas.addEventListener('pointerdown', (event) => {
    held = [event.offsetX, left];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointerup', () => { held = null; });
  canvas.addEventListener('pointermove', (event) => {
    if (held) {
      left = held[1] - (event.offsetX - held[0]) * scale;
      clamp();
      draw();
    }
    note.textContent = spell(left + (event.offsetX - label) * scale, event.offsetY) || 'Point at something.';
  });
  window.addEventListener('resize', resize);
  resize();
  all();
})();
