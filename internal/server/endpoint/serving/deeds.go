package serving

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/internal/base/ids"
	"berth/internal/server/permissions"
	"berth/internal/server/rights"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Deed is a call for a person that came by the connection of another agent, and changes something or shows what is in
// tasks.
type Deed struct {
	Who       string // by the state of this server; empty: it does not know the token
	Known     bool   // there is a token, and it knows it
	From      string // the agent, and its address
	Method    string
	Namespace ids.Namespace
	Object    string
}

// Recorder writes down that a call is about to be made. Its error refuses the call; end is told how it ended, and its
// error takes the place of a success.
type Recorder func(Deed) (end func(error) error, err error)

// Recorded has calls recorded by the server where they come in (wire.Server.Record). What comes from within this
// process the surface of its own agent has recorded, and what a server passes on that server.
func Recorded(store *state.Store, record Recorder) func(context.Context, string, any) (func(error) error, error) {
	return func(ctx context.Context, method string, req any) (func(error) error, error) {
		who, known := wire.Caller(ctx)
		person, is := wire.PersonOf(ctx)
		if !known || !is || len(wire.Relays(ctx)) > 0 || permissions.Reads(method, req) {
			return nil, nil
		}
		d := Deed{From: who.String() + " at " + wire.CallerAddr(ctx), Method: methodName(method)}
		if holder, _, err := rights.Of(store.Snapshot(), nil, person.Token, time.Now()); err == nil {
			d.Who, d.Known = holder.String(), !holder.Anonymous()
		}
		d.Namespace, d.Object = subject(req)
		return record(d)
	}
}

// methodName is a method as people read it.
func methodName(path string) string {
	return strings.ReplaceAll(strings.TrimPrefix(path, "/berth."), "/", ".")
}

// naming are the fields by which requests say what they are about. None holds a secret.
var naming = []string{
	"Job", "Alloc", "Volume", "Snapshot", "Node", "Plugin", "Accessor", "ID", "Name", "Address", "Task",
}

// subject is what a request is about, as far as its fields say.
func subject(req any) (ns ids.Namespace, object string) {
	var names []string
	var read func(v reflect.Value, depth int)
	read = func(v reflect.Value, depth int) {
		for v.Kind() == reflect.Pointer && !v.IsNil() {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct || depth > 2 {
			return
		}
		for i := range v.NumField() {
			f, of := v.Field(i), v.Type().Field(i)
			switch {
			case of.Name == "Namespace" && f.Kind() == reflect.String:
				if ns == "" {
					ns = ids.Namespace(f.String())
				}
			case !of.IsExported() || !of.Anonymous && !slices.Contains(naming, of.Name):
			case f.Kind() == reflect.String:
				if s := f.String(); s != "" && !slices.Contains(names, s) {
					names = append(names, s)
				}
			default:
				read(f, depth+1)
			}
		}
	}
	read(reflect.ValueOf(req), 0)
	return ns, strings.Join(names, " ")
}
