// Package demands owns the list of what the CSI specification demands of an orchestrator, each with the tests that show
// it. It writes docs/csi-conformance.md, and has tests alone.
package demands
