// Package compat owns the proof that the public Go client of the API drives Berth unchanged. It is a module of its own,
// so that nothing of that client is ever linked into the program; nobody imports it.
package compat
