// Who looks, and what they may do.

import { get, keepToken } from "./api.js";

const ranks = { reader: 1, member: 2, operator: 1, admin: 2 };

export const session = { caller: null, project: sessionStorage.getItem("project") || "" };

// begin asks who calls. It throws the Problem of a node where people have to sign in.
export async function begin() {
  session.caller = await get("/v1/whoami");
  const own = Object.keys(session.caller.projects || {});
  if (!session.project || (!readsAll() && !own.includes(session.project))) session.project = own[0] || "default";
}

export function signOut() {
  keepToken("");
  session.caller = null;
}

export function choose(project) {
  session.project = project;
  sessionStorage.setItem("project", project);
}

// readsAll says whether the caller has a role of the cell: operators read what every project has.
export const readsAll = () => Boolean(session.caller?.cell);

// operates says whether the caller may look at hosts and change their state; administers, whether it may do everything.
export const operates = readsAll;
export const administers = () => session.caller?.cell === "admin";

// mayChange says whether the caller is a member of the project.
export function mayChange(project) {
  return administers() || ranks[session.caller?.projects?.[project]] >= ranks.member;
}
