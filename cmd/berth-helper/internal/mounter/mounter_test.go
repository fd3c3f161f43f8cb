package mounter

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestEveryTextBecomesJSON(t *testing.T) {
	for _, text := range []string{"", "plain", `a"b\c`, "line\nbreak\ttab\x00\x1f", "é 世界", "bad \xff utf8"} {
		var got map[string]string
		if err := json.Unmarshal([]byte(object(field{"error", quote(text)})), &got); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		want := string([]rune(text)) // JSON holds no invalid UTF-8
		if got["error"] != want {
			t.Errorf("%q came back as %q", text, got["error"])
		}
	}
}

func TestARefusedCallNamesItsErrno(t *testing.T) {
	var out, usage bytes.Buffer
	if code := Run([]string{"statfs", "/no/such/path"}, &out, &usage); code != exitFailed || out.String() != `{"ok":false,"errno":2,"error":"no such file or directory"}`+"\n" {
		t.Errorf("%d: %s", code, out.String())
	}
}
