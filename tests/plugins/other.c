/* A shared object that is no plug-in. */
int plugin_of_something_else(void);
int plugin_of_something_else(void) {
  return 0;
}
