"""The routes of the API, a file for each group; each declares its routes with `workbench.http.api.declared.route`."""
