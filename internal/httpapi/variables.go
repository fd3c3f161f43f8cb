package httpapi

import (
	"errors"
	"net/http"

	"berth/api"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/variables"
	"berth/internal/model/variable"
	"berth/internal/wire"
)

// What is read of variables.
var (
	variableList = calls.Read(wire.VariableList, calls.ListBy(), calls.Listed((*variable.Variable).Key,
		variables.Metadata))
	variableGet = calls.Read(wire.VariableGet, calls.ByName[string], func(_ *calls.Request,
		out *wire.VariableReply) (any, error) {
		return calls.Shown(out.Item, "variable", func(v *variable.Variable) any {
			return variables.Whole(v,
				out.Items)
		})
	})
)

// variableWrite writes or deletes a variable, or is about its lock.
func (s *Server) variableWrite(w http.ResponseWriter, r *calls.Request) error {
	in := &api.Variable{}
	if r.Method != http.MethodDelete {
		data, err := r.Bytes()
		if err != nil {
			return err
		}
		if err := variables.Read(data, in); err != nil {
			return calls.BadRequest(err.Error())
		}
	}
	out, err := variables.Write(r.Context(), s.cfg.Servers, variables.Query{
		Method:    r.Method,
		URL:       r.URL,
		Namespace: r.Namespace,
		Path:      r.PathValue("id"),
		By:        access.Peer(r.Request),
	}, in)
	var bad variables.Bad
	if errors.As(err, &bad) {
		return calls.BadRequest(bad.Text)
	}
	if err != nil {
		return err
	}
	r.Written(out.Index)
	if out.Status == http.StatusOK {
		s.reply(w, r, out.Body)
		return nil
	}
	r.Indexes(w.Header())
	return out.Other(w)
}
