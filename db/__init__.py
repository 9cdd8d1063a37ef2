"""The store: engine, typed tables and store functions; nothing here commits but `Store.write`."""
