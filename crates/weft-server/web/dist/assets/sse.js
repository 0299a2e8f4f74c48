async function*e(e){let n=e.body?.pipeThrough(new TextDecoderStream).getReader(),r=``;for(;n!==void 0;){let{value:e,done:i}=await n.read();if(i)return;r+=e;let a=r.split(`

`);r=a.pop()??``;for(let e of a){let n=t(e);n!==void 0&&(yield n)}}}function t(e){let t={event:`message`,id:``,data:``},n=[];for(let r of e.split(`
`)){let[e=``,...i]=r.split(`:`),a=i.join(`:`).replace(/^ /,``);e===`data`?n.push(a):(e===`event`||e===`id`)&&(t[e]=a)}if(n.length!==0)return t.data=n.join(`
`),t}export{e as t};