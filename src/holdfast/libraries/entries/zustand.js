// zustand without React, of which scripts have none: stores and middleware.
const { createStore } = require("zustand/vanilla");

module.exports = { create: createStore, createStore, ...require("zustand/middleware") };
