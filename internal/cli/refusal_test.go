package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
	"berth/jobspec/support"
)

const ui = `job "tides" {
  type = "batch"
  ui {
    description = "tides"
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
`

// judge answers registrations and validations as an agent does that refuses by its own rules.
func judge(t *testing.T, rules func(*api.Job) string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body api.JobRegisterRequest
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
			return
		}
		text := rules(body.Job)
		switch {
		case r.URL.Path == "/v1/validate/job" && text != "":
			_ = json.NewEncoder(w).Encode(&api.JobValidateResponse{ValidationErrors: []string{text}, Error: text})
		case text != "":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, text)
		default:
			_, _ = io.WriteString(w, `{"JobModifyIndex":7}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Given a file with a feature that this program does not know to be built, when a newer server takes it, then it runs;
// when a server refuses it, then its answer is shown, with the places in the file where this program knows them; and
// where no server can be asked, this program judges by itself.
func TestServersJudgeWhatIsBuilt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tides.hcl")
	if err := os.WriteFile(file, []byte(ui), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := judge(t, func(*api.Job) string { return "" })
	same := judge(t, func(j *api.Job) string { return support.Unsupported(j)[0].String() })
	other := judge(t, func(*api.Job) string { return "ui needs a licence" })
	place := file + ":3:3: ui is not built yet: "
	for _, c := range []struct {
		address, command string
		code             int
		want             string
	}{
		{newer, "job run", 0, "There is nothing to run now"},
		{newer, "job validate", 0, `Job "tides" is valid`},
		{same, "job run", 1, place},
		{same, "job plan", 255, place},
		{same, "job validate", 1, place},
		{other, "job run", 1, `Error: run job "tides": ui needs a licence`},
		{other, "job validate", 1, "* ui needs a licence"},
		{"http://127.0.0.1:1", "job validate", 1, place},
	} {
		got := run(t.Context(), c.address, "", append(strings.Fields(c.command), file)...)
		if got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.want) {
			t.Errorf("%s against %s: %d %s%s", c.command, c.address, got.code, got.stdout, got.stderr)
		}
	}
}
