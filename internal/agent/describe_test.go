package agent

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// unsaid are members of the observed configuration that this agent's has not, each with the reason.
var unsaid = map[string]string{
	"Audit":                     "there is no audit log",
	"Autopilot":                 "a server stands alone",
	"ConfigPaths":               "paths of the machine are nobody's affair; a reload names the files that it read",
	"Consuls":                   "Consul is not built yet",
	"DisableAnonymousSignature": "nothing is asked of anybody outside",
	"DisableUpdateCheck":        "nothing is asked of anybody outside",
	"Eventlog":                  "it is of another operating system",
	"Files":                     "as ConfigPaths",
	"HTTPAPIResponseHeaders":    "headers of answers are not configured",
	"Limits":                    "they follow from the descriptors of the process; those that are set have other names",
	"LogFile":                   "the log goes to the standard error, and whoever runs the agent keeps it",
	"LogIncludeLocation":        "lines of the log have no place in the source",
	"LogRotateBytes":            "as LogFile",
	"LogRotateDuration":         "as LogFile",
	"LogRotateMaxFiles":         "as LogFile",
	"PluginDir":                 "drivers of others are not built yet",
	"Plugins":                   "drivers are shown with the node that has them",
	"RPC":                       "its times are not configured",
	"Reporting":                 "nothing is reported to anybody outside",
	"Sentinel":                  "it is of another edition",
	"SyslogFacility":            "as LogFile",
	"Telemetry":                 "metrics are answered, and sent to nobody",
	"Vaults":                    "Vault is not built yet",
}

// Given the configuration that an agent of the observed system shows, then ours shows each of its members with the same
// JSON type, down to those that clients read, or there is a reason why it does not.
func TestTheConfigurationIsShownByTheObservedNames(t *testing.T) {
	data, err := os.ReadFile("../../api/testdata/replies/GET_agent_self.200.json")
	if err != nil {
		t.Fatal(err)
	}
	var sample struct {
		Body struct{ Config map[string]any }
	}
	if err := json.Unmarshal(data, &sample); err != nil {
		t.Fatal(err)
	}
	cfg, err := Parse([]string{"-dev", "-data-dir", "/tmp/shown"}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(cfg.describe("1.0", "info")); err != nil {
		t.Fatal(err)
	}
	var ours map[string]any
	if err := json.Unmarshal(data, &ours); err != nil {
		t.Fatal(err)
	}
	met := []string{}
	for name, was := range sample.Body.Config {
		is, there := ours[name]
		switch {
		case was == nil:
		case !there && unsaid[name] == "":
			t.Errorf("%s is not shown, and nobody says why", name)
		case there && unsaid[name] != "":
			t.Errorf("%s is shown, although: %s", name, unsaid[name])
		case there:
			sameKinds(t, name, was, is)
		}
		met = append(met, name)
	}
	for name := range unsaid {
		if !slices.Contains(met, name) {
			t.Errorf("%s was not observed", name)
		}
	}
	if len(met) < 40 {
		t.Errorf("only %d members were observed", len(met))
	}
}

// sameKinds holds what is there in both against each other.
func sameKinds(t *testing.T, at string, was, is any) {
	t.Helper()
	switch was := was.(type) {
	case map[string]any:
		of, object := is.(map[string]any)
		if !object {
			t.Errorf("%s was an object, is %v", at, is)
		}
		for name, member := range was {
			if ours, there := of[name]; there {
				sameKinds(t, at+"."+name, member, ours)
			}
		}
	case []any:
		if _, list := is.([]any); !list {
			t.Errorf("%s was a list, is %v", at, is)
		}
	case string:
		if _, text := is.(string); !text {
			t.Errorf("%s was a text, is %v", at, is)
		}
	case float64:
		if _, number := is.(float64); !number {
			t.Errorf("%s was a number, is %v", at, is)
		}
	case bool:
		if _, truth := is.(bool); !truth {
			t.Errorf("%s was true or false, is %v", at, is)
		}
	}
}
