// Package variables owns the public shape of variables, and which call a write of one is. Only httpapi imports it.
package variables

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/variable"
	"berth/internal/wire"
)

// MaxBody bounds the body of a write in bytes: what a variable may hold, however its characters are written.
const MaxBody = 8 * variable.MaxBytes

// Metadata is what lists say of a variable.
func Metadata(v *variable.Variable) *api.VariableMetadata {
	return &api.VariableMetadata{
		Namespace:   string(v.Namespace),
		Path:        v.Path,
		Lock:        lock(v.Lock),
		CreateIndex: v.CreateIndex,
		CreateTime:  v.CreateTime,
		ModifyIndex: v.ModifyIndex,
		ModifyTime:  v.ModifyTime,
	}
}

func lock(l *variable.Lock) *api.VariableLock {
	if l == nil {
		return nil
	}
	return &api.VariableLock{ID: l.ID, TTL: l.TTL.String(), LockDelay: l.Delay.String()}
}

// Whole is a variable with what it holds.
func Whole(v *variable.Variable, items wire.Secrets) *api.Variable {
	out := &api.Variable{
		Namespace:   string(v.Namespace),
		Path:        v.Path,
		Lock:        lock(v.Lock),
		CreateIndex: v.CreateIndex,
		CreateTime:  v.CreateTime,
		ModifyIndex: v.ModifyIndex,
		ModifyTime:  v.ModifyTime,
		Items:       api.Secrets{},
	}
	for k, text := range items.Values {
		out.Items[k] = text
	}
	return out
}

// Read reads the body of a write. An item that it names twice is refused: one of them would be lost.
func Read(data []byte, in *api.Variable) error {
	return jsonv2.Unmarshal(data, in, jsonv2.MatchCaseInsensitiveNames(true))
}

// Query is a write as its URL says it.
type Query struct {
	Method    string
	URL       *url.URL
	Namespace ids.Namespace
	Path      string
	By        string
}

// Written is the answer to a write: a status, and what is there, nil for nothing.
type Written struct {
	Index  uint64
	Status int
	Body   any
}

// Other writes an answer that is not the usual one. Clients know a conflict by its status, and what is there is no JSON
// by its header.
func (w *Written) Other(to http.ResponseWriter) error {
	if w.Body == nil {
		to.WriteHeader(w.Status)
		return nil
	}
	data, err := json.Marshal(w.Body)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "show", "the variable")
	}
	to.Header().Set("Content-Type", "text/plain; charset=utf-8")
	to.WriteHeader(w.Status)
	_, _ = to.Write(data) // a caller that went away reads nothing
	return nil
}

// Bad is what is wrong with a request.
type Bad struct{ Text string }

func (b Bad) Error() string { return b.Text }

// Write makes the call that a request asks for.
func Write(ctx context.Context, servers wire.Conn, q Query, in *api.Variable) (*Written, error) {
	check, err := q.check()
	if err != nil {
		return nil, err
	}
	if in.Path != "" && in.Path != q.Path {
		return nil, Bad{fmt.Sprintf("the body is about variable %q, the path of the request about %q", in.Path,
			q.Path)}
	}
	if in.Namespace != "" && in.Namespace != string(q.Namespace) {
		return nil, Bad{fmt.Sprintf("the body is about namespace %q, the request about %q; write ?namespace=%s, or "+
			"leave it out of the body", in.Namespace, q.Namespace, url.QueryEscape(in.Namespace))}
	}
	held := ""
	if in.Lock != nil {
		held = in.Lock.ID
	}
	verbs := q.verbs()
	switch {
	case len(verbs) > 1 || len(verbs) == 1 && (check != nil || q.Method == http.MethodDelete):
		return nil, Bad{"a request either writes, or takes, renews or releases one lock; leave out the other " +
			"parameters"}
	case q.Method == http.MethodDelete:
		return q.answer(wire.VariableDelete.Call(ctx, servers, &wire.VariableDeleteRequest{
			Namespace: q.Namespace,
			Path:      q.Path,
			Check:     check,
			Lock:      held,
			By:        q.By,
		}))
	case len(verbs) == 0:
		return q.answer(wire.VariablePut.Call(ctx, servers, &wire.VariablePutRequest{
			Namespace: q.Namespace,
			Path:      q.Path,
			Items:     wire.Secrets{Values: in.Items},
			Check:     check,
			Lock:      held,
			By:        q.By,
		}))
	case verbs[0] == acquire:
		l, err := toLock(in.Lock)
		if err != nil {
			return nil, err
		}
		return q.answer(wire.VariableAcquire.Call(ctx, servers, &wire.VariableAcquireRequest{
			Namespace: q.Namespace,
			Path:      q.Path,
			Items:     wire.Secrets{Values: in.Items},
			Lock:      l,
			By:        q.By,
		}))
	}
	req := &wire.VariableLockRequest{Namespace: q.Namespace, Path: q.Path, Lock: held, By: q.By}
	if verbs[0] == release {
		return q.answer(wire.VariableRelease.Call(ctx, servers, req))
	}
	out, err := wire.VariableRenew.Call(ctx, servers, req)
	if err != nil || out.Conflict != "" {
		return q.answer(out, err)
	}
	return &Written{Index: out.Index, Status: http.StatusOK, Body: Metadata(out.Item)}, nil
}

// answer shows what became of a write.
func (q Query) answer(out *wire.VariableWritten, err error) (*Written, error) {
	if err != nil {
		return nil, err
	}
	w := &Written{Index: out.Index, Status: http.StatusOK}
	if out.Conflict != "" {
		w.Status = http.StatusConflict
	}
	switch {
	case out.Item == nil && out.Conflict != "": // what is there is nothing: a variable of index 0
		w.Body = &api.Variable{Namespace: string(q.Namespace), Path: q.Path}
	case out.Item == nil:
		w.Status = http.StatusNoContent
	default:
		whole := Whole(out.Item, out.Items)
		if out.Hidden {
			whole.Items = nil
		}
		w.Body = whole
	}
	return w, nil
}

// Verbs of locks.
const (
	acquire = "lock-acquire"
	renew   = "lock-renew"
	release = "lock-release"
)

func (q Query) verbs() (out []string) {
	for _, verb := range []string{acquire, renew, release} {
		if q.URL.Query().Has(verb) {
			out = append(out, verb)
		}
	}
	return out
}

// check is the index that the variable has to have; nil: any.
func (q Query) check() (*uint64, error) {
	if !q.URL.Query().Has("cas") {
		return nil, nil
	}
	text := q.URL.Query().Get("cas")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, Bad{fmt.Sprintf("cas must be the index of a variable, or 0, is %q", text)}
	}
	return &n, nil
}

// toLock is the lock that somebody asks for.
func toLock(in *api.VariableLock) (variable.Lock, error) {
	out := variable.Lock{TTL: variable.DefaultTTL, Delay: variable.DefaultDelay}
	if in == nil {
		return out, nil
	}
	out.ID = in.ID
	for _, m := range []struct {
		name, text string
		to         *time.Duration
	}{{"TTL", in.TTL, &out.TTL}, {"LockDelay", in.LockDelay, &out.Delay}} {
		if m.text == "" {
			continue
		}
		d, err := time.ParseDuration(m.text)
		if err != nil {
			return out, Bad{fmt.Sprintf("%s of the lock must be a duration such as \"15s\", is %q", m.name, m.text)}
		}
		*m.to = d
	}
	return out, nil
}
