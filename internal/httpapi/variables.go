package httpapi

import (
	"errors"
	"net/http"

	"berth/api"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/variables"
	"berth/internal/model/variable"
	"berth/internal/wire"
)

// What is read of variables.
var (
	variableList = read(wire.VariableList, listBy(), listed((*variable.Variable).Key, variables.Metadata))
	variableGet  = read(wire.VariableGet, byName[string], func(_ *request, out *wire.VariableReply) (any, error) {
		return shown(out.Item, "variable", func(v *variable.Variable) any { return variables.Whole(v, out.Items) })
	})
)

// variableWrite writes or deletes a variable, or is about its lock.
func (s *Server) variableWrite(w http.ResponseWriter, r *request) error {
	in := &api.Variable{}
	if r.Method != http.MethodDelete {
		if err := r.read(in); err != nil {
			return err
		}
	}
	out, err := variables.Write(r.Context(), s.cfg.Servers, variables.Query{
		Method:    r.Method,
		URL:       r.URL,
		Namespace: r.ns,
		Path:      r.PathValue("id"),
		By:        access.Peer(r.Request),
	}, in)
	var bad variables.Bad
	if errors.As(err, &bad) {
		return badRequest(bad.Text)
	}
	if err != nil {
		return err
	}
	r.written(out.Index)
	if out.Status == http.StatusOK {
		s.reply(w, r, out.Body)
		return nil
	}
	r.indexes(w.Header())
	return out.Other(w)
}
