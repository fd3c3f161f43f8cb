package agent

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/internal/agent/accesslists"
	"berth/internal/agent/apitls"
	"berth/internal/agent/auditlog"
	"berth/internal/agent/consulblock"
	"berth/internal/testkit/reference"
	"berth/jobspec/listing"
)

// Given all that may stand in an agent's configuration, then its page has each block with its names, types, defaults,
// and what a reload takes over, and nothing else; and the settings of others in the words that refuse them.
func TestThePageOfTheConfigurationIsWhole(t *testing.T) {
	p := reference.Open(t, "reference/agent.md")
	cfg := parse(t, "-config", write(t, t.TempDir(), "a.hcl", base))
	var known, said []string
	settings := map[string]listing.Entry{}
	for _, e := range listing.Of("agent", reflect.TypeFor[Config](), refusals) {
		key := e.In[strings.LastIndex(e.In, "/")+1:] + "." + e.Name
		known, settings[key] = append(known, key), e
	}
	for _, s := range p.Sections() {
		if s.Head == "Not built" {
			continue
		}
		for _, row := range s.Rows {
			name, _, _ := strings.Cut(reference.Plain(row[0]), "](")
			key := s.Head + "." + strings.Trim(name, "[]")
			said = append(said, key)
			e, ok := settings[key]
			if len(row) != 5 || !ok {
				t.Errorf("%s: the row is %q", key, row)
				continue
			}
			if row[1] != e.Type {
				t.Errorf("%s is of the type %q, the page says %q", key, e.Type, row[1])
			}
			setting := strings.TrimPrefix(strings.ReplaceAll(e.In, "/", ".")+"."+e.Name, "agent.")
			if want := map[bool]string{true: "yes", false: "no"}[reloads[setting] != nil]; row[4] != want {
				t.Errorf("%s: reload %s, the page says %q", setting, want, row[4])
			}
			if want := value(reflect.ValueOf(cfg), e.Path); want != "" && want != cfg.Name && setting != "data_dir" &&
				!strings.HasSuffix(setting, ".enabled") && !strings.Contains(row[2], "`"+want+"`") {
				t.Errorf("%s has the default %q, the page says %q", setting, want, row[2])
			}
		}
	}
	p.Same("a setting", said, known)
	var listed, there []string
	for _, r := range p.Section("Not built").Rows {
		listed = append(listed, reference.Plain(r[0]+"."+r[1]+": "+r[2]))
	}
	for typ, in := range map[reflect.Type]string{
		reflect.TypeFor[Config]():            "agent",
		reflect.TypeFor[ClientBlock]():       "client",
		reflect.TypeFor[ServerBlock]():       "server",
		reflect.TypeFor[accesslists.Block](): "acl",
		reflect.TypeFor[auditlog.Block]():    "audit",
		reflect.TypeFor[apitls.Block]():      "tls",
		reflect.TypeFor[consulblock.Block](): "consul",
	} {
		for _, name := range slices.Sorted(maps.Keys(refusals[typ].Refusal)) {
			there = append(there, in+"."+name+": "+refusals[typ].Refusal[name])
		}
	}
	p.Same("a setting that is not built", listed, there)
}

// value is what the configuration says at a path; empty: nothing, or what goes without saying.
func value(v reflect.Value, path string) string {
	for step := range strings.SplitSeq(path, ".") {
		for v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return ""
		}
		if v = v.FieldByName(step); !v.IsValid() {
			return ""
		}
	}
	switch v.Kind() {
	case reflect.String, reflect.Int, reflect.Bool:
		if !v.IsZero() {
			return fmt.Sprint(v.Interface())
		}
	}
	return ""
}
