package keepers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/wire"
)

// look prints what a node was asked with last: "look attach v1". By its number the node knows a repetition of the call
// that it is making. "look grant a1" prints what the node of an alloc receives to mount its volume with, "look plugin
// p" what is known of a plugin.
func (w *world) look(kind, name string) error {
	switch kind {
	case "grant":
		return w.lookGrant(ids.Alloc(name))
	case "plugin":
		text := "plugin " + name + " is not known"
		if r := w.c.Store.Snapshot().Plugin(nil, ids.Plugin(name)); r != nil {
			text = fmt.Sprintf(
				"plugin %s is of version %s: controller known %v, nodes known %v, attaches %v, creates %v",
				name, r.Version, r.Negotiated, r.NodeNegotiated, r.NeedsAttach, r.Controller.CreateDelete)
		}
		w.tell(event{volume: name, text: text})
		return nil
	}
	w.provider.mu.Lock()
	calls := w.provider.calls[kind+" "+name]
	w.provider.mu.Unlock()
	if len(calls) == 0 {
		return fmt.Errorf("nobody was asked to %s %s", kind, name)
	}
	c := calls[len(calls)-1]
	number := "a new number"
	switch {
	case c.Generation == 0:
		number = "no number"
	case len(calls) > 1 && c.Generation == calls[len(calls)-2].Generation:
		number = "the number of the call before"
	case len(calls) > 1 && c.Generation < calls[len(calls)-2].Generation:
		number = "an old number"
	}
	args := facts(struct {
		Attach   *wire.AttachArgs
		Create   *wire.CreateArgs
		Volume   *wire.VolumeArgs
		Snapshot *wire.SnapshotArgs
		Secrets  wire.Secrets
	}{c.Attach, c.Create, c.Volume, c.Snapshot, c.Secrets})
	w.tell(event{volume: name, text: fmt.Sprintf("%s %s of plugin %s, within %s, with %s:\n    %s", kind, name,
		c.Plugin, c.Timeout, number, strings.Join(args, "\n    "))})
	return nil
}

func (w *world) lookGrant(id ids.Alloc) error {
	a := w.c.Store.Snapshot().Alloc(nil, id)
	if a == nil {
		return fmt.Errorf("there is no alloc %s", id)
	}
	reply, err := wire.NodeGrants.Call(w.t.Context(), w.conn,
		&wire.GrantsRequest{NodeIdentity: w.identity(a.Node), Alloc: id})
	var text string
	switch {
	case err != nil:
		text = "is refused: " + err.Error()
	case !reply.Ready:
		text = "waits: " + reply.Waiting[0].Reason
	default:
		text = "is given:\n    " + strings.Join(facts(reply.Grants[0]), "\n    ")
	}
	w.tell(event{volume: string(id), text: fmt.Sprintf("%s on %s %s", id, a.Node, text)})
	return nil
}

// facts lists the members of a value that are set, one a line. Places in the log are not told: how many entries there
// are is no promise.
func facts(v any) []string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		panic(err) // as above
	}
	out := leaves("", tree)
	slices.Sort(out)
	return out
}

func leaves(path string, v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v { // the caller sorts
			out = append(out, leaves(path+"."+name, member)...)
		}
	case []any:
		for i, member := range v {
			out = append(out, leaves(fmt.Sprintf("%s[%d]", path, i), member)...)
		}
	default:
		if v == nil || v == false || v == 0.0 || v == "" {
			return nil
		}
		text := fmt.Sprintf("%#v", v)
		switch path[strings.LastIndex(path, ".")+1:] {
		case "Index", "Generation", "Incarnation", "Mark":
			text = "set"
		}
		out = append(out, strings.TrimPrefix(path, ".")+" = "+text)
	}
	return out
}

// secrets is a store of secrets that shows for each name that there is something.
type secrets struct{ w *world }

// Secrets implements controllers.Secrets.
func (s secrets) Secrets(name string) (wire.Secrets, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	switch {
	case name == "":
		return wire.Secrets{}, nil
	case s.w.keyless:
		return wire.Secrets{}, fault.New(fault.NotFound, "open", "secret", "its key is not here")
	}
	return wire.Secrets{Values: map[string]string{"key": name}}, nil
}

// Seal implements storage.Secrets.
func (secrets) Seal(string, redact.Map) ([]byte, error) { return []byte("sealed"), nil }
