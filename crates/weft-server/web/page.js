// The token stands behind the `#` of the address, which no server sees.
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";

async function list(path, id, text) {
  const response = await fetch(path, { headers: { authorization: `Bearer ${token}` } });
  if (!response.ok) throw new Error((await response.json()).detail);
  const items = (await response.json()).map((entry) => {
    const item = document.createElement("li");
    item.textContent = text(entry);
    return item;
  });
  document.getElementById(id).replaceChildren(...items);
}

const state = document.getElementById("state");
try {
  await list("/api/agents", "agents", (agent) => `${agent.id}: ${agent.description ?? agent.title}`);
  await list("/api/runs?limit=20", "runs", (run) => `${run.started} ${run.agent ?? run.workflow} ${run.status}`);
  state.textContent = "Connected.";
} catch (error) {
  state.textContent = error.message;
}
