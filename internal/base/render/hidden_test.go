package render

import (
	"strings"
	"testing"
)

// TestWhatIsWrongWithATemplateTellsNothingOfWhatItReads: given a variable, keys of Consul, a file and an environment
// with secrets, when a template fails over one of them, or over a part of one, then the error says what is wrong and
// where, and has nothing of the secret.
func TestWhatIsWrongWithATemplateTellsNothingOfWhatItReads(t *testing.T) {
	const secret = "s3cret\tcanary [zz"
	known := Known{
		{Kind: Variable, Name: "v"}:   `{"password":"s3cret\tcanary [zz","json":"{\"pin\":\"part-of-it\"}"}`,
		{Kind: ConsulKey, Name: "k"}:  `"s3cret\tcanary [zz"`,
		{Kind: ConsulKeys, Name: "d"}: `[{"Key":"k","Path":"d/k","Value":"s3cret\tcanary [zz"}]`,
		{Kind: File, Name: "f"}:       `"s3cret\tcanary [zz"`,
	}
	env := func(name string) string {
		if name == "TOKEN" {
			return secret
		}
		return ""
	}
	const variable = `{{ $v := (nomadVar "v").password }}`
	for text, says := range map[string]string{
		variable + `{{ $v | parseInt }}`:                                              "parseInt: invalid syntax",
		variable + `{{ $v | parseUint }}`:                                             "invalid syntax",
		variable + `{{ $v | parseFloat }}`:                                            "invalid syntax",
		variable + `{{ $v | parseBool }}`:                                             "invalid syntax",
		variable + `{{ $v | parseJSON }}`:                                             "invalid character",
		variable + `{{ $v | base64Decode }}`:                                          "illegal base64",
		variable + `{{ add $v 1 }}`:                                                   "is no number",
		variable + `{{ loop $v.Value }}`:                                              "is no whole number",
		variable + `{{ mustEnv $v }}`:                                                 "the environment has no",
		variable + `{{ executeTemplate $v.Value }}`:                                   "no template named",
		variable + `{{ regexMatch $v "x" }}`:                                          "missing closing ]",
		variable + `{{ "x" | regexReplaceAll $v "x" }}`:                               "missing closing ]",
		`{{ ((nomadVar "v").json.Value | parseJSON).pin | parseInt }}`:                "invalid syntax",
		`{{ key "k" | parseInt }}`:                                                    "invalid syntax",
		`{{ mustEnv (key "k") }}`:                                                     "the environment has no",
		`{{ range ls "d" }}{{ mustEnv .Value }}{{ end }}`:                             "the environment has no",
		`{{ key (printf "a@b %s" (key "k")) }}`:                                       "a name made of what",
		`{{ range service (key "k") }}{{ end }}`:                                      "a name made of what",
		variable + `{{ $v | splitToMap "[" ":" }}`:                                    "has no \":\"",
		`{{ mustEnv (file "f") }}`:                                                    "the environment has no",
		`{{ mustEnv (env "TOKEN") }}`:                                                 "the environment has no",
		`{{ envOrDefault "TOKEN" "x" | parseInt }}`:                                   "invalid syntax",
		`{{ define "a" }}{{ mustEnv . }}{{ end }}{{ executeTemplate "a" (key "k") }}`: "the environment has no",
	} {
		_, err := Execute(Template{Name: "t", Text: text}, Values{Env: env, Known: known})
		if err == nil {
			t.Errorf("%s: it renders", text)
			continue
		}
		got := err.Error()
		if !strings.Contains(got, says) || !strings.HasPrefix(got, "render t: ") {
			t.Errorf("%s: %q does not say %q", text, got, says)
		}
		for _, part := range []string{"s3cret", "canary", "zz", "part-of-it"} {
			if strings.Contains(got, part) {
				t.Errorf("%s: %q has %q", text, got, part)
			}
		}
	}
}
