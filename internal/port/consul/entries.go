package consul

import (
	"context"
	"net/http"
	"net/url"

	"berth/internal/base/fault"
)

// EntryMeta is the meta of an entry of Consul's configuration, and whether there is such an entry.
func (a *Agent) EntryMeta(ctx context.Context, kind, name string) (meta map[string]string, there bool, err error) {
	var reply struct{ Meta map[string]string }
	_, err = a.call(ctx, request{
		path: "/v1/config/" + url.PathEscape(kind) + "/" + url.PathEscape(name),
		into: &reply,
	})
	if fault.Has(err, fault.NotFound) {
		return nil, false, nil
	}
	return reply.Meta, err == nil, mayEntries(err)
}

// WriteEntry writes an entry of Consul's configuration, in place of the one of its kind and name.
func (a *Agent) WriteEntry(ctx context.Context, entry map[string]any) error {
	_, err := a.call(ctx, request{method: http.MethodPut, path: "/v1/config", body: entry})
	return mayEntries(err)
}

// mayEntries says what is missing where entries may not be read or written.
func mayEntries(err error) error {
	if fault.Has(err, fault.Denied) {
		return fault.WithHint(err, "give the servers a token that may write what gateways do: consul { token_file = "+
			"\"…\" }, with mesh = \"write\"")
	}
	return err
}
