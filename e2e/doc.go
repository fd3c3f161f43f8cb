// Package e2e owns the stories that the whole program is held to: the real binary, as root, with real mounts, loop
// devices and processes, and CSI plugins behind the recording proxy so that the oracle judges every call. It holds
// tests only; nobody imports it. "make e2e" runs it.
package e2e
