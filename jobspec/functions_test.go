package jobspec_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"berth/jobspec"
	"berth/jobspec/functions"

	"golang.org/x/crypto/bcrypt"
)

// evaluated gives the value of an expression as text, through a job's meta.
func evaluated(t *testing.T, expr string, files bool) (string, error) {
	t.Helper()
	src := "locals {\n  v = " + expr + "\n}\njob \"j\" {\n  meta = { v = jsonencode(local.v) }\n}\n"
	job, err := jobspec.Parse(
		jobspec.ParseConfig{Path: "testdata/f.hcl", Source: []byte(src), AllowFileFunctions: files})
	if err != nil {
		return "", err
	}
	return job.Meta["v"], nil
}

// pureCases has one expression at least for every pure function.
var pureCases = map[string][][2]string{
	"abs":          {{`abs(-3)`, `3`}},
	"base64decode": {{`base64decode("aGk=")`, `"hi"`}},
	"base64encode": {{`base64encode("hi")`, `"aGk="`}},
	"can":          {{`can({}.b)`, `false`}, {`can(1 + 1)`, `true`}},
	"ceil":         {{`ceil(1.2)`, `2`}},
	"chomp":        {{`chomp("a\n")`, `"a"`}},
	"chunklist":    {{`chunklist([1,2,3], 2)`, `[[1,2],[3]]`}},
	"cidrhost": {{`cidrhost("10.1.0.0/16", 5)`, `"10.1.0.5"`}, {`cidrhost("10.1.0.0/24", -2)`, `"10.1.0.254"`},
		{`cidrhost("fd00::/64", 16)`, `"fd00::10"`}},
	"cidrnetmask": {{`cidrnetmask("10.0.0.0/12")`, `"255.240.0.0"`}},
	"cidrsubnet": {{`cidrsubnet("10.0.0.0/8", 8, 2)`, `"10.2.0.0/16"`},
		{`cidrsubnet("fd00::/48", 16, 162)`, `"fd00:0:0:a2::/64"`}},
	"cidrsubnets": {{`cidrsubnets("10.1.0.0/16", 4, 4, 8, 4)`,
		`["10.1.0.0/20","10.1.16.0/20","10.1.32.0/24","10.1.48.0/20"]`}},
	"coalesce":        {{`coalesce(null, "a")`, `"a"`}},
	"coalescelist":    {{`coalescelist([], [1])`, `[1]`}},
	"compact":         {{`compact(["a", ""])`, `["a"]`}},
	"concat":          {{`concat([1], [2])`, `[1,2]`}},
	"contains":        {{`contains(["a"], "a")`, `true`}},
	"convert":         {{`convert("5", number)`, `5`}},
	"csvdecode":       {{`csvdecode("a,b\n1,2\n")`, `[{"a":"1","b":"2"}]`}},
	"distinct":        {{`distinct([1,1,2])`, `[1,2]`}},
	"element":         {{`element([1,2,3], 4)`, `2`}},
	"flatten":         {{`flatten([[1],[2,[3]]])`, `[1,2,3]`}},
	"floor":           {{`floor(1.8)`, `1`}},
	"format":          {{`format("%05d-%s", 7, "x")`, `"00007-x"`}},
	"formatdate":      {{`formatdate("YYYY", "2026-01-02T03:04:05Z")`, `"2026"`}},
	"formatlist":      {{`formatlist("%s!", ["a","b"])`, `["a!","b!"]`}},
	"indent":          {{`indent(2, "a\nb")`, `"a\n  b"`}},
	"index":           {{`index(["a","b"], 1)`, `"b"`}},
	"join":            {{`join("-", ["a","b"])`, `"a-b"`}},
	"jsondecode":      {{`jsondecode("{\"a\":1}")`, `{"a":1}`}},
	"jsonencode":      {{`jsonencode([1])`, `"[1]"`}},
	"keys":            {{`keys({b=1,a=2})`, `["a","b"]`}},
	"length":          {{`length([1,2])`, `2`}},
	"log":             {{`log(8, 2)`, `3`}},
	"lookup":          {{`lookup({a=1}, "b", 2)`, `2`}},
	"lower":           {{`lower("A")`, `"a"`}},
	"max":             {{`max(1,3,2)`, `3`}},
	"md5":             {{`md5("a")`, `"0cc175b9c0f1b6a831c399e269772661"`}},
	"merge":           {{`merge({a=1},{b=2})`, `{"a":1,"b":2}`}},
	"min":             {{`min(1,3,2)`, `1`}},
	"parseint":        {{`parseint("ff", 16)`, `255`}},
	"pow":             {{`pow(2, 10)`, `1024`}},
	"range":           {{`range(3)`, `[0,1,2]`}},
	"regex_replace":   {{`regex_replace("a1b2", "[0-9]", "_")`, `"a_b_"`}},
	"replace":         {{`replace("aXbX", "X", "-")`, `"a-b-"`}},
	"reverse":         {{`reverse([1,2])`, `[2,1]`}, {`reverse("añb")`, `"bña"`}},
	"setintersection": {{`setintersection(["a","b"], ["b"])`, `["b"]`}},
	"setproduct":      {{`setproduct(["a"], [1,2])`, `[["a",1],["a",2]]`}},
	"setunion":        {{`setunion(["a"], ["b"])`, `["a","b"]`}},
	"sha1":            {{`sha1("a")`, `"86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"`}},
	"sha256":          {{`sha256("")`, `"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`}},
	"sha512":          {{`substr(sha512(""), 0, 16)`, `"cf83e1357eefb8bd"`}},
	"signum":          {{`signum(-9)`, `-1`}},
	"slice":           {{`slice([1,2,3], 1, 3)`, `[2,3]`}},
	"sort":            {{`sort(["b","a"])`, `["a","b"]`}},
	"split":           {{`split(",", "a,b")`, `["a","b"]`}},
	"strlen":          {{`strlen("añ")`, `2`}},
	"strrev":          {{`strrev("abc")`, `"cba"`}},
	"substr":          {{`substr("hello", 1, 3)`, `"ell"`}},
	"timeadd":         {{`timeadd("2026-01-01T00:00:00Z", "1h")`, `"2026-01-01T01:00:00Z"`}},
	"title":           {{`title("ab cd")`, `"Ab Cd"`}},
	"trim":            {{`trim("?a?", "?")`, `"a"`}},
	"trimprefix":      {{`trimprefix("xa", "x")`, `"a"`}},
	"trimspace":       {{`trimspace(" a ")`, `"a"`}},
	"trimsuffix":      {{`trimsuffix("ax", "x")`, `"a"`}},
	"try":             {{`try({}.b, "fallback")`, `"fallback"`}},
	"upper":           {{`upper("a")`, `"A"`}},
	"urlencode":       {{`urlencode("a b&c")`, `"a+b%26c"`}},
	"uuidv5":          {{`uuidv5("dns", "www.example.com")`, `"2ed6657d-e927-568b-95e1-2665a8aea6a2"`}},
	"values":          {{`values({b=1,a=2})`, `[2,1]`}},
	"yamldecode":      {{`yamldecode("a: [1, 2]")`, `{"a":[1,2]}`}},
	"yamlencode":      {{`yamldecode(yamlencode({a=[1]}))`, `{"a":[1]}`}},
	"zipmap":          {{`zipmap(["a"], [1])`, `{"a":1}`}},
}

// Given every pure function, when it is called, then it gives what its name promises.
func TestPureFunctions(t *testing.T) {
	special := map[string]bool{"bcrypt": true, "rsadecrypt": true, "uuidv4": true}
	for _, name := range functions.Pure() {
		if len(pureCases[name]) == 0 && !special[name] {
			t.Errorf("%s has no case", name)
		}
		for _, c := range pureCases[name] {
			got, err := evaluated(t, c[0], false)
			if err != nil || strings.ReplaceAll(got, `\u0026`, "&") != c[1] {
				t.Errorf("%s\n got  %s (%v)\n want %s", c[0], got, err, c[1])
			}
		}
	}
}

// Given functions whose results differ from call to call, when they are called, then the results have their form.
func TestFunctionsOfChance(t *testing.T) {
	got, err := evaluated(t, "uuidv4()", false)
	if err != nil ||
		!regexp.MustCompile(`^"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"$`).MatchString(
			got) {
		t.Errorf("uuidv4: %s %v", got, err)
	}
	got, err = evaluated(t, `bcrypt("secret", 4)`, false)
	if err != nil || bcrypt.CompareHashAndPassword([]byte(strings.Trim(got, `"`)), []byte("secret")) != nil {
		t.Errorf("bcrypt: %s %v", got, err)
	}
	if _, err = evaluated(t, `bcrypt("secret", 30)`, false); err == nil {
		t.Error("bcrypt with a cost of minutes is allowed")
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	//nolint:staticcheck // rsadecrypt opens texts with this padding
	sealed, err := rsa.EncryptPKCS1v15(rand.Reader, &key.PublicKey, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	got, err = evaluated(t, fmt.Sprintf("rsadecrypt(%q, %q)", base64.StdEncoding.EncodeToString(sealed), text), false)
	if err != nil || got != `"hello"` {
		t.Errorf("rsadecrypt: %s %v", got, err)
	}
}

// Given functions that read files, when files may be read, then they read relative to the document; on a server they
// refuse by name.
func TestFileFunctions(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "hello", "sub/b.txt": "x", "sub/deep/c.txt": "y"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string][2]string{
		"abspath":    {`abspath("/a/../b")`, `"/b"`},
		"basename":   {`basename("/a/b.txt")`, `"b.txt"`},
		"dirname":    {`dirname("/a/b.txt")`, `"/a"`},
		"file":       {fmt.Sprintf(`file(%q)`, dir+"/a.txt"), `"hello"`},
		"filebase64": {fmt.Sprintf(`filebase64(%q)`, dir+"/a.txt"), `"aGVsbG8="`},
		"fileexists": {fmt.Sprintf(`fileexists(%q)`, dir+"/none"), `false`},
		"fileset":    {fmt.Sprintf(`fileset(%q, "**/*.txt")`, dir), `["a.txt","sub/b.txt","sub/deep/c.txt"]`},
		"pathexpand": {`pathexpand("/x")`, `"/x"`},
	}
	for _, name := range functions.File() {
		c, ok := cases[name]
		if !ok {
			t.Errorf("%s has no case", name)
			continue
		}
		if got, err := evaluated(t, c[0], true); err != nil || got != c[1] {
			t.Errorf("%s: got %s (%v), want %s", c[0], got, err, c[1])
		}
		if _, err := evaluated(t, c[0], false); err == nil || !strings.Contains(err.Error(), name+" reads files") {
			t.Errorf("%s on a server: %v", name, err)
		}
	}
	if got, err := evaluated(t, `file("jobs/single_task.nomad.hcl")`, true); err != nil ||
		!strings.Contains(got, "shortest job") {
		t.Errorf("a relative path does not start at the document: %v", err)
	}
}
