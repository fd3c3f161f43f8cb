package cli_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/consulsetup"
	"berth/internal/cli"
)

// setUpConsul answers as it is done: one object is missing, one differs, one is somebody's.
func setUpConsul(_ context.Context, asked consulsetup.Asked) (*consulsetup.Report, error) {
	if asked.Consul.Address == "away:1" {
		return nil, errors.New("Consul is away")
	}
	out := &consulsetup.Report{Applied: asked.Apply, Steps: []consulsetup.Step{
		{Kind: "policy", Name: "berth-tasks", Action: consulsetup.Kept},
		{Kind: "role", Name: "berth-tasks-" + asked.Namespace, Action: consulsetup.Create},
		{
			Kind:   "auth-method",
			Name:   asked.Method,
			Action: consulsetup.Update,
			Object: map[string]any{"Audience": asked.Audience, "JWKSURL": asked.Keys, "CA": asked.KeysCA},
		},
		{Kind: "binding-rule", Name: "tasks", Action: consulsetup.Unchanged},
	}}
	if gw := asked.Gateway; gw.Name != "" {
		out.Steps = append(out.Steps, consulsetup.Step{
			Kind:   "policy",
			Name:   "gateway-" + gw.Name,
			Action: consulsetup.Create,
			Object: map[string]any{"Services": gw.Services},
		})
	}
	return out, nil
}

// TestSetupAsksConsulAsItsOwnProgramDoes: the variables of Consul's own program say where and by which token, what this
// command does not take is refused, and no token is shown anywhere.
func TestSetupAsksConsulAsItsOwnProgramDoes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("canary-of-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen consulsetup.Asked
	for _, c := range []struct {
		env   map[string]string
		says  string // of an error; empty: it is done
		token string
		want  consulsetup.Consul
	}{
		{},
		{
			env: map[string]string{
				"CONSUL_HTTP_ADDR":       "c:1",
				"CONSUL_HTTP_TOKEN":      "canary",
				"CONSUL_HTTP_SSL":        "1",
				"CONSUL_HTTP_SSL_VERIFY": "false",
				"CONSUL_CACERT":          "ca",
				"CONSUL_CLIENT_CERT":     "cert",
				"CONSUL_CLIENT_KEY":      "key",
			},
			token: "canary",
			want: consulsetup.Consul{
				Address:    "c:1",
				TLS:        true,
				SkipVerify: true,
				CAFile:     "ca",
				CertFile:   "cert",
				KeyFile:    "key",
			},
		},
		{
			env:   map[string]string{"CONSUL_HTTP_TOKEN_FILE": file, "CONSUL_HTTP_TOKEN": "another"},
			token: "canary-of-the-file",
		},
		{env: map[string]string{"CONSUL_HTTP_TOKEN_FILE": "/nothing"}, says: "/nothing"},
		{env: map[string]string{"CONSUL_HTTP_SSL": "perhaps"}, says: "CONSUL_HTTP_SSL"},
		{env: map[string]string{"CONSUL_NAMESPACE": "shop"}, says: "CONSUL_NAMESPACE"},
		{env: map[string]string{"CONSUL_HTTP_AUTH": "a:b"}, says: "unset it"},
	} {
		var out bytes.Buffer
		seen = consulsetup.Asked{}
		app := cli.New(cli.Options{
			Stdin:  strings.NewReader(""),
			Stdout: &out,
			Stderr: &out,
			Getenv: func(name string) string {
				if name == "BERTH_ADDR" {
					return "http://berth:4646/"
				}
				return c.env[name]
			},
			SetUpConsul: func(ctx context.Context, asked consulsetup.Asked) (*consulsetup.Report, error) {
				seen = asked
				return setUpConsul(ctx, asked)
			},
		})
		code := app.Run(t.Context(), []string{"setup", "consul", "-json"})
		if strings.Contains(out.String(), "canary") {
			t.Errorf("%v: the token is shown: %s", c.env, &out)
		}
		if c.says != "" {
			if code != 1 || !strings.Contains(out.String(), c.says) || seen.Method != "" {
				t.Errorf("%v: exit code %d, %s", c.env, code, &out)
			}
			continue
		}
		token := ""
		if !seen.Consul.Token.Empty() {
			token = seen.Consul.Token.Reveal()
		}
		seen.Consul.Token = c.want.Token
		if code != 0 || token != c.token || seen.Consul != c.want ||
			seen.Keys != "http://berth:4646/.well-known/jwks.json" {
			t.Errorf("%v: exit code %d, token %q, asked %+v\n%s", c.env, code, token, seen, &out)
		}
	}
}
