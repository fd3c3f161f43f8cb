package httpapi_test

import (
	"net/url"
	"strings"
	"testing"
)

// Given every list whose objects have names or ids, when it is asked for those that begin with a text, then it has
// those, and no others; and an empty list where there are none.
func TestListsHaveWhatBeginsWithAPrefix(t *testing.T) {
	w := newWorld(t)
	w.crowd()
	w.must("PUT", "/v1/node/pools", map[string]any{"Name": "fast"})
	scaled := webJob("scaled")
	group(scaled)["Scaling"] = map[string]any{"Min": 1, "Max": 3}
	w.submit(scaled)
	w.must("PUT", "/v1/var/app/db", map[string]any{"Items": map[string]any{"k": "v"}})
	for path, key := range map[string]string{
		"/v1/jobs": "ID", "/v1/allocations": "ID", "/v1/evaluations": "ID", "/v1/deployments": "ID", "/v1/nodes": "ID",
		"/v1/volumes": "ID", "/v1/plugins": "ID", "/v1/vars": "Path", "/v1/namespaces": "Name",
		"/v1/node/pools": "Name", "/v1/acl/policies": "Name", "/v1/acl/tokens": "AccessorID", "/v1/acl/roles": "ID",
		"/v1/scaling/policies": "ID",
	} {
		list := func(prefix string) (out []string) {
			var all []map[string]any
			args := url.Values{"prefix": {prefix}}
			if path == "/v1/volumes" || path == "/v1/plugins" {
				args.Set("type", "csi")
			}
			w.get(path+"?"+args.Encode(), &all)
			for _, it := range all {
				name, _ := it[key].(string)
				out = append(out, name)
			}
			return out
		}
		all := list("")
		if len(all) == 0 {
			t.Errorf("%s: nothing is listed", path)
			continue
		}
		prefix := all[0][:min(4, len(all[0]))]
		want := 0
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				want++
			}
		}
		if got := list(prefix); len(got) != want {
			t.Errorf("%s: of %d those with the prefix %q are %d, listed are %q", path, len(all), prefix, want, got)
		}
		if got := list("0123abcd"); len(got) != 0 {
			t.Errorf("%s: with a prefix that none has are listed %q", path, got)
		}
	}
}
