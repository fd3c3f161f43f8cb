package consul_test

import (
	"encoding/json"
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
	if text, _, err := a.Read(t.Context(), one, absent, 300*time.Millisecond); text != "" || err != nil {
		t.Errorf("what is not there is %q, %v", text, err)
	}
	put("app/a%20b", "7")
	text, index, err := a.Read(t.Context(), one, absent, time.Minute)
	if text != `"7"` || index <= absent || err != nil {
		t.Errorf("what has come is %q at %d, %v", text, index, err)
	}
	put("app/d/e", "8")
	put("apple", "9")
	var pairs []render.Pair
	read(render.Source{Kind: render.ConsulKeys, Name: "/app"}, &pairs)
	var got []string
	for _, p := range pairs {
		got = append(got, p.Key+" "+p.Path+" "+p.Value)
		if p.ModifyIndex == 0 {
			t.Errorf("%+v has no index", p)
		}
	}
	if want := []string{"a b app/a b 7", "d/e app/d/e 8"}; !reflect.DeepEqual(got, want) {
		t.Errorf("below app there are %q, want %q", got, want)
	}
	testServicesOfTemplates(t, real, read)

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
			if f.NodeAddress != "127.0.0.1" || f.Port != 80 || f.Node != consulagent.Node || f.ServiceMeta["k"] != "v" {
				t.Errorf("%+v", f)
			}
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: %q, want %s", name, got, want)
		}
	}
	var names []render.ServiceName
	read(render.Source{Kind: render.ConsulServices}, &names)
	want := []render.ServiceName{{Name: "consul"}, {Name: "web", Tags: []string{"v1.2", "web-1", "web-2"}}}
	if !reflect.DeepEqual(names, want) {
		t.Errorf("%+v, want %+v", names, want)
	}
}
