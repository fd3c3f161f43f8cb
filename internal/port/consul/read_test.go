package consul_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/base/render"
	"berth/internal/port/consul"
	"berth/internal/testkit/consulagent"
)

// TestTemplatesReadConsul: what templates ask for is what Consul has, a call with an index waits for what comes later,
// of what is not there, too, and a token reads what it may and no more.
func TestTemplatesReadConsul(t *testing.T) {
	real := consulagent.StartWithLists(t)
	a, err := consul.New(consul.Config{Address: real.URL(), Token: redact.New(consulagent.Management)})
	if err != nil {
		t.Fatal(err)
	}
	put := func(path, value string) {
		t.Helper()
		real.Do(http.MethodPut, "/v1/kv/"+path, json.RawMessage(value), nil)
	}
	read := func(s render.Source, out any) uint64 {
		t.Helper()
		text, index, err := a.Read(t.Context(), s, 0, 0)
		if err == nil && text != "" {
			err = json.Unmarshal([]byte(text), out)
		}
		if err != nil {
			t.Fatalf("%v: %q, %v", s, text, err)
		}
		return index
	}
	one := render.Source{Kind: render.ConsulKey, Name: "app/a b"}
	absent := read(one, nil)
	if absent == 0 {
		t.Error("of what is not there nothing is said to wait by")
	}
	if text, _, err := a.Read(t.Context(), one, absent, 300*time.Millisecond); text != "" || err != nil {
		t.Errorf("what is not there is %q, %v", text, err)
	}
	put("app/a%20b", "7")
	text, index, err := a.Read(t.Context(), one, absent, time.Minute)
	if text != `"7"` || index <= absent || err != nil {
		t.Errorf("what has come is %q at %d, %v", text, index, err)
	}
	put("app/d/e?flags=42", "8")
	put("apple", "9")
	put("odd/50%25%3Fx%2523", "10")
	odd := render.Source{Kind: render.ConsulKey, Name: "odd/50%?x%23"}
	if text, _, err := a.Read(t.Context(), odd, 0, 0); err != nil || text != `"10"` {
		t.Errorf("a key with signs that an address has a use for is %q, %v", text, err)
	}
	var pairs []render.Pair
	read(render.Source{Kind: render.ConsulKeys, Name: "/app"}, &pairs)
	var got []string
	for _, p := range pairs {
		got = append(got, fmt.Sprint(p.Key, " ", p.Path, " ", p.Value, " ", p.Flags))
		if p.ModifyIndex == 0 {
			t.Errorf("%+v has no index", p)
		}
	}
	if want := []string{"a b app/a b 7 0", "d/e app/d/e 8 42"}; !reflect.DeepEqual(got, want) {
		t.Errorf("below app there are %q, want %q", got, want)
	}
	testServicesOfTemplates(t, real, read)
	for _, elsewhere := range []render.Source{
		{Kind: render.ConsulKey, Name: "app/d/e@nowhere"},
		{Kind: render.ConsulService, Name: "web@nowhere"},
		{Kind: render.ConsulServices, Name: "@nowhere"},
	} {
		if text, _, err := a.Read(t.Context(), elsewhere, 0, 0); err == nil {
			t.Errorf("%v is %q, of a datacenter that there is not", elsewhere, text)
		}
	}

	may := a.As(redact.New(real.Policy("one", `key "app/d/e" { policy = "read" }`)))
	its := render.Source{Kind: render.ConsulKey, Name: "app/d/e"}
	if text, _, err := may.Read(t.Context(), its, 0, 0); text != `"8"` {
		t.Errorf("%q, %v", text, err)
	}
	_, _, err = may.Read(t.Context(), one, 0, 0)
	if !fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), `key "app/a b" of Consul`) {
		t.Errorf("what it may not read: %v", err)
	}
}

// testServicesOfTemplates: of instances those are found that have the tag and the status.
func testServicesOfTemplates(t *testing.T, real *consulagent.Agent, read func(render.Source, any) uint64) {
	t.Helper()
	for id, status := range map[string]string{"web-1": "passing", "web-2": "critical"} {
		real.Do(http.MethodPut, "/v1/agent/service/register", map[string]any{
			"ID": id, "Name": "web", "Port": 80, "Tags": []string{id, "v1.2"}, "Meta": map[string]string{"k": "v"},
			"Check": map[string]string{"TTL": "1h", "Status": status},
		}, nil)
	}
	real.Until("both are in the catalog", func() bool { return len(real.Catalog("web")) == 2 })
	for name, want := range map[string]string{
		"web":               "web-1",
		"web@dc1":           "web-1",
		"web|any":           "web-1,web-2",
		"web-2.web|any":     "web-2",
		"web-2.web":         "",
		"v1.2.web|critical": "web-2",
	} {
		var found []render.Found
		read(render.Source{Kind: render.ConsulService, Name: name}, &found)
		var got []string
		for _, f := range found {
			got = append(got, f.ID)
			if f.NodeAddress != "127.0.0.1" || f.Port != 80 || f.Node != consulagent.Node ||
				f.ServiceMeta["k"] != "v" || f.NodeMeta["consul-version"] == "" {
				t.Errorf("%+v", f)
			}
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: %q, want %s", name, got, want)
		}
	}
	testStatusesOfTemplates(t, real, read)
	var names []render.ServiceName
	read(render.Source{Kind: render.ConsulServices}, &names)
	want := []render.ServiceName{
		{Name: "consul"},
		{Name: "two"},
		{Name: "web", Tags: []string{"v1.2", "web-1", "web-2"}},
	}
	if !reflect.DeepEqual(names, want) {
		t.Errorf("%+v, want %+v", names, want)
	}
}

// testStatusesOfTemplates: the worst check of an instance counts, and above all that somebody works on it or its node.
func testStatusesOfTemplates(t *testing.T, real *consulagent.Agent, read func(render.Source, any) uint64) {
	t.Helper()
	real.Do(http.MethodPut, "/v1/agent/service/register", map[string]any{"ID": "two", "Name": "two", "Checks": []any{
		map[string]string{"CheckID": "a", "TTL": "1h", "Status": "critical"},
		map[string]string{"CheckID": "b", "TTL": "1h", "Status": "passing"},
	}}, nil)
	is := func(want string) {
		t.Helper()
		real.Until("the instance to be "+want, func() bool {
			var found []render.Found
			read(render.Source{Kind: render.ConsulService, Name: "two|any"}, &found)
			return len(found) == 1 && found[0].Status == want
		})
	}
	is("critical")
	for _, of := range []string{"service/maintenance/two", "maintenance"} {
		real.Do(http.MethodPut, "/v1/agent/"+of+"?enable=true", nil, nil)
		is("maintenance")
		real.Do(http.MethodPut, "/v1/agent/"+of+"?enable=false", nil, nil)
		is("critical")
	}
}
