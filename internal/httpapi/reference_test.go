package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi"
	"berth/internal/httpapi/absent"
	"berth/internal/httpapi/access"
	"berth/internal/testkit/reference"
)

// Given the route table, then the page of the API has each route, with whether one can wait for a change of what it
// reads and where it is refused on an open port, and no other; and what is not built in the words of the answer.
func TestThePageOfTheAPIIsWhole(t *testing.T) {
	p := reference.Open(t, "reference/api.md")
	r := newRig(t)
	name := regexp.MustCompile(`\{[a-z]+\}`)
	var said, listed []string
	for _, s := range p.Sections() {
		for _, row := range s.Rows {
			method, path := reference.Plain(row[0]), reference.Plain(row[1])
			if s.Head == "Not built" {
				listed = append(listed, method+" "+path+": "+reference.Plain(row[2]))
				continue
			}
			said = append(said, method+" "+path)
			at := name.ReplaceAllString(path, ids.New())
			waits := ""
			if method == http.MethodGet {
				if status, text := r.begin(method, at+"?index=x"); status == http.StatusBadRequest &&
					strings.Contains(text, "Invalid index") {
					waits = "waits"
				}
			}
			if row[2] != waits {
				t.Errorf("%s %s: the page says %q, it is %q", method, path, row[2], waits)
			}
			_, err := access.Network{}.Admit(httptest.NewRequest(method, "http://localhost"+at, nil))
			if closed := strings.Contains(row[3], "Not on an open port"); closed != fault.Has(err, fault.Denied) {
				t.Errorf("%s %s on an open port: %v, the page says %q", method, path, err, row[3])
			}
		}
	}
	p.Same("a route", said, httpapi.Routes())
	for _, list := range p.Section("Answered as others do").Lists() {
		for i := range list {
			if words := strings.Fields(list[i]); len(words) == 2 {
				listed = append(listed, words[0]+" "+words[1])
			}
		}
	}
	var there []string
	for _, a := range absent.Answers() {
		if strings.HasSuffix(a.Text, "only endpoint") || a.Status == http.StatusNotFound {
			there = append(there, a.Method+" "+a.Path)
			continue
		}
		there = append(there, a.Method+" "+a.Path+": "+a.Text)
	}
	p.Same("what is not built", listed, there)
}
