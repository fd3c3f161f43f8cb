package references_test

import (
	"strings"
	"testing"

	"berth/api"
	"berth/internal/httpapi/jobrules/references"
)

func TestReferencesThatNoNodeKnowsAreWarnedOf(t *testing.T) {
	job := func(text string) *api.Job {
		return &api.Job{TaskGroups: []*api.TaskGroup{{
			Name: "g",
			Networks: []*api.NetworkResource{{
				DynamicPorts:  []api.Port{{Label: "http"}},
				ReservedPorts: []api.Port{{Label: "db-rw"}},
			}},
			Tasks: []*api.Task{
				{Name: "a", Config: map[string]any{"args": []any{map[string]any{"x": text}}}, Env: map[string]string{
					"NOMAD_PORT_own": "1"}},
				{Name: "b-c"},
			},
		}}}
	}
	for text, want := range map[string]string{
		"plain":                          "",
		"${NOMAD_PORT_http}":             "",
		"${NOMAD_PORT_own}":              "",
		"${ env[\"NOMAD_IP_db_rw\"] }":   "",
		"${NOMAD_ADDR_b_c_http}":         "",
		"${SHELL:-sh} ${x#y}":            "",
		"${attr.kernel.name}":            "",
		"${NOMAD_META_port}":             "",
		"a ${NOMAD_PORT_htpp}":           `${NOMAD_PORT_htpp} names the port "htpp"`,
		"${NOMAD_HOST_ADDR_a_http}":      `${NOMAD_HOST_ADDR_a_http} names the port "a_http"`,
		"${env[\"NOMAD_ALLOC_PORT_x\"]}": `${env["NOMAD_ALLOC_PORT_x"]} names the port "x"`,
		`${NOMAD_X == "a" ? 1 : 2}`:      `${NOMAD_X == "a" ? 1 : 2} stays as it is`,
	} {
		got := strings.Join(references.Unknown(job(text)), "; ")
		if want == "" && got != "" {
			t.Errorf("%s: %q", text, got)
		}
		if want == "" {
			continue
		}
		begins := strings.HasPrefix(got, `group "g": task "a": config args x: `+want)
		named := strings.HasSuffix(got, "which the group does not have; it has db_rw, http")
		if !begins || named != strings.Contains(want, "the port") {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
