// A port for a node of a test.

import { once } from "node:events";
import { createServer } from "node:net";

/** Returns a free port below those that the system chooses for others, who could take it before it is used. */
export async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const server = createServer().listen(port, "127.0.0.1");
    const isFree = await once(server, "listening").then(() => true, () => false);
    if (!isFree) continue;
    server.close();
    await once(server, "close");
    return port;
  }
}
