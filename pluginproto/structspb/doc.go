// Package structspb owns values by which plugins describe what they find, in the public protocol of plugins: the .proto
// file beside it, and the code that scripts/protoc.sh makes of it. Hosts and authors of plugins import it.
package structspb
