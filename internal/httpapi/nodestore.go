package httpapi

import (
	"io"
	"net/http"
	"os"
	"strconv"

	"berth/internal/base/logkey"
)

// NodeStore is the store of the node in this agent.
type NodeStore interface {
	// CopyStore returns what the node remembers, at one moment, in a file that the caller closes, and its size.
	CopyStore() (copied *os.File, size int64, err error)
}

// nodeStore sends what the node remembers, its own secret included: whoever may ask for it may run anything here.
func (s *Server) nodeStore(w http.ResponseWriter, _ *request) error {
	if s.cfg.NodeStore == nil {
		return missing("this agent has no node")
	}
	f, size, err := s.cfg.NodeStore.CopyStore()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it has no name any more
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10)) // by which a reader knows what was cut off
	if _, err := io.Copy(w, f); err != nil {
		s.cfg.Log.Debug("a copy of the node's store was cut off", logkey.Error, err)
	}
	return nil
}
