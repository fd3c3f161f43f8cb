package httpapi

import (
	"errors"
	"net/http"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/base/savefile"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/nodestore"
	"berth/internal/httpapi/statefile"
	"berth/internal/wire"
)

var recoveryStatus = calls.Read(wire.RecoveryStatus, (*calls.Request).Whole, func(_ *calls.Request,
	out *wire.RecoveryView) (any, error) {
	return convert.Recovery(out), nil
})

// recoveryWord reads what a person says about the servers' state, and who says it.
func recoveryWord(r *calls.Request) (*wire.RecoveryWord, error) {
	var body api.RecoveryRequest
	if err := r.ReadOptional(&body); err != nil {
		return nil, err
	}
	return &wire.RecoveryWord{Node: ids.Node(body.NodeID), Reason: body.Reason, By: access.Peer(r.Request)}, nil
}

var (
	recoveryBegin   = calls.Write(wire.RecoveryBegin, recoveryWord, calls.Empty)
	recoveryFinish  = calls.Write(wire.RecoveryFinish, recoveryWord, calls.Empty)
	recoveryDismiss = calls.Write(wire.RecoveryDismiss, func(r *calls.Request) (*wire.RecoveryWord, error) {
		word, err := recoveryWord(r)
		if err != nil {
			return nil, err
		}
		return word, calls.WholeID("node", string(word.Node))
	}, calls.Empty)
)

// maxSaved bounds a saved state that is sent to be restored, in bytes.
const maxSaved = savefile.MaxState

// snapshotSave sends the servers' state as a file, with its digest.
func (s *Server) snapshotSave(w http.ResponseWriter, r *calls.Request) error {
	return statefile.Send(r.Context(), w, s.cfg.Servers)
}

func (s *Server) nodeStore(w http.ResponseWriter, _ *calls.Request) error {
	return nodestore.Send(w, s.cfg.NodeStore)
}

// snapshotRestore replaces the servers' state by a saved one.
func (s *Server) snapshotRestore(w http.ResponseWriter, r *calls.Request) error {
	index, err := statefile.Take(r.Context(), r.Body, s.cfg.Servers,
		&wire.RecoveryWord{
			By:          access.Peer(r.Request),
			Reason:      r.Arg("reason"),
			RecoveryKey: wire.SealRecoveryKey(r.Header.Get(api.RecoveryKeyHeader)),
		})
	var cut *statefile.CutOff
	switch {
	case errors.As(err, &cut):
		return calls.Unread(cut.Err)
	case err != nil:
		return err
	}
	r.Written(index)
	r.Indexes(w.Header())
	return nil
}
