"""What scripts get of `database`: the functions of the host, which are told each time what the script is connected to.

`place` is driver, name, token of a database in memory, token of a transaction. It is part of the script's state, and therefore
right after a pause, a fork or a rewind. A transaction that was lost stays in it until the script has ended it, so that no statement
that belongs to it is done by itself.
"""

from typing import Final

JAVASCRIPT: Final = r"""
const held = /^\s*(insert|update|delete|replace|merge|with)\b/i;
let place = [];
const database = {
  configure(driver, dsn) {
    place = [driver, dsn, host.configure(driver, dsn), ""];
  },
  query(sql, ...args) {
    return host.query(place, sql, ...args);
  },
  exec(sql, ...args) {
    const isHeld = place[1] === ":memory:" || (place[3] && held.test(sql));
    const [done, transaction] = isHeld ? host.execHeld(place, sql, ...args) : host.exec(place, sql, ...args);
    place[3] = transaction;
    return done;
  },
  begin() {
    place[3] = host.begin(place);
  },
  commit() {
    try {
      host.commit(place);
    } finally {
      if (place.length) place[3] = "";
    }
  },
  rollback() {
    host.rollback(place);
    if (place.length) place[3] = "";
  },
  transaction(work) {
    const undone = (error) => {
      try {
        database.rollback();
      } catch {}
      throw error;
    };
    const done = (value) => {
      database.commit();
      return value;
    };
    database.begin();
    let value;
    try {
      value = work(database);
    } catch (error) {
      undone(error);
    }
    return value && typeof value.then === "function" ? value.then(done, undone) : done(value);
  },
  close() {
    place = [];
    host.close();
  },
};
module.exports = { ...database };
"""

LUA: Final = r"""
local place = {}
local words = { insert = true, update = true, delete = true, replace = true, merge = true, with = true }
local database = {}

function database.configure(driver, dsn)
  place = { driver, dsn, host.configure(driver, dsn), "" }
end

function database.query(sql, ...)
  return host.query(place, sql, ...)
end

function database.exec(sql, ...)
  local word = type(sql) == "string" and sql:match("^%s*(%a+)") or ""
  local held = place[2] == ":memory:" or (place[4] and place[4] ~= "" and words[word:lower()])
  local answer
  if held then answer = host.execHeld(place, sql, ...) else answer = host.exec(place, sql, ...) end
  place[4] = answer[2]
  return answer[1]
end

function database.begin()
  place[4] = host.begin(place)
end

function database.commit()
  local ok, problem = pcall(host.commit, place)
  if place[4] then place[4] = "" end
  if not ok then error(problem, 0) end
end

function database.rollback()
  host.rollback(place)
  if place[4] then place[4] = "" end
end

function database.transaction(work)
  database.begin()
  local found = table.pack(pcall(work, database))
  if not found[1] then
    pcall(database.rollback)
    error(found[2], 0)
  end
  database.commit()
  return table.unpack(found, 2, found.n)
end

function database.close()
  place = {}
  host.close()
end

return database
"""
