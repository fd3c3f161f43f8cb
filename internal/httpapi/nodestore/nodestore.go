// Package nodestore owns how the store of an agent's node is handed out over HTTP. Only httpapi and the agent import
// it.
package nodestore

import (
	"io"
	"net/http"
	"os"
	"strconv"

	"berth/internal/base/fault"
)

// Source is a node that remembers.
type Source interface {
	// CopyStore returns what the node remembers, at one moment, in a file that the caller closes, and its size.
	CopyStore() (copied *os.File, size int64, err error)
}

// Send writes what the node remembers, its own secret included: whoever may ask for it may run anything there. nil is
// no node.
func Send(w http.ResponseWriter, from Source) error {
	if from == nil {
		return fault.New(fault.NotFound, "copy", "the node's store", "no node runs in this agent")
	}
	f, size, err := from.CopyStore()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it has no name any more
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10)) // by which a reader knows what was cut off
	_, _ = io.Copy(w, f)                                          // what is cut off is short
	return nil
}
