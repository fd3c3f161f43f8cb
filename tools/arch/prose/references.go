package prose

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	plannedFile    = "tools/arch/planned.txt"
	invariantsPage = "docs/INVARIANTS.md"
)

var invariantHead = regexp.MustCompile(`^## (I\d+): `)

// What a comment or a page may refer to.
var (
	pageRef     = regexp.MustCompile(`(?:[\w-]+/)*[\w-]+\.md(?:#[\w-]*)?`)
	sectionRef  = regexp.MustCompile(`(?:\.md|\b[A-Z]{4,})\)?,? §`)
	recordRef   = regexp.MustCompile(`(?i)\badr[ /](\d{4})\b`)
	testdataRef = regexp.MustCompile(`(?:[\w-]+/)*testdata/[\w./-]+`)
	sourceRef   = regexp.MustCompile(`(?:[\w-]+/)*[\w-]+\.go\b`)
	packageRef  = regexp.MustCompile(`\b(?:internal|cmd|tools|e2e|scripts|examples)/[\w/.-]+`)
	shortRef    = regexp.MustCompile(
		`(?:\w+/)*\b(?:base|model|server|client|port|testkit|conformance|allocrunner|csimanager)/\w+\b`)
	linkRef   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeRef   = regexp.MustCompile(`\b[A-Z]\d{1,2}\b`)
	codedName = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark)(?:\w+_)?([A-Z]\d{1,2})_`)
	codedFile = regexp.MustCompile(`(?:^|/)[a-z]\d{1,2}_[\w-]+\.txt$`)
	testRef   = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	oracleRef = regexp.MustCompile("oracle rule `(\\w+)`")
	judgedRef = regexp.MustCompile("oracle rule `\\w+`, fed by \\w")
	// severalServers is what only tests of several servers say.
	severalServers = regexp.MustCompile(`testkit/servers"|\bnewCluster\(|\bnewSim\(`)
	inFull         = regexp.MustCompile(`invariants? [A-Z]\d`)
)

// outside are the documents of others; goesOn is what follows a piece of a longer path or of a pattern; example are
// names that stand for any other.
var (
	outside = regexp.MustCompile(`(?i)csi-spec|https?://|\bspec\.md\b`)
	goesOn  = regexp.MustCompile(`^(?:[*<…]|NNNN|\.[a-z])`)
	example = regexp.MustCompile(`(?:^|/)(?:[a-z]|_\w*)(?:[/.]|$)`)
)

// references knows everything that can be referred to.
type references struct {
	r       *Repo
	paths   map[string]bool            // files and folders
	folders map[string]bool            // of Go files
	anchors map[string]map[string]bool // headings of pages
	codes   map[string]bool            // that a heading of docs defines, as invariant I8
	tests   map[string]string          // where each is
	planned map[string]int             // what does not exist yet: its line in planned.txt
	met     map[string]bool
	out     []Finding
}

// References finds what comments and pages refer to and what is not there.
func References(repo *Repo) []Finding {
	r := &references{
		r:       repo,
		paths:   map[string]bool{".": true},
		folders: map[string]bool{},
		anchors: map[string]map[string]bool{},
		codes:   map[string]bool{},
		tests:   map[string]string{},
		planned: map[string]int{},
		met:     map[string]bool{},
	}
	r.learn()
	for _, f := range repo.Files {
		r.file(f)
	}
	for _, p := range repo.Texts {
		switch {
		case strings.HasPrefix(p, "tools/arch/testdata/"):
		case strings.HasSuffix(p, ".md"):
			r.page(p)
		case codedFile.MatchString(p):
			r.say(p, 0, "is named by a code; name it by what it shows")
		case strings.HasSuffix(p, ".txt"):
			r.script(p)
		}
	}
	for name, line := range r.planned {
		if !r.met[name] {
			r.say(plannedFile, line, "nothing refers to %s any more, or it exists: delete the line", name)
		}
	}
	return r.out
}

func (r *references) say(path string, line int, format string, args ...any) {
	r.out = append(r.out, Finding{Path: path, Line: line, Text: fmt.Sprintf(format, args...)})
}

// learn reads what is there.
func (r *references) learn() {
	for _, p := range r.r.Texts {
		for d := p; !r.paths[d]; d = path.Dir(d) {
			r.paths[d] = true
		}
		if strings.HasSuffix(p, ".md") {
			r.headings(p)
		}
	}
	for _, f := range r.r.Files {
		r.folders[f.Dir] = true
		for _, id := range f.Names {
			if f.Test && id.Kind == Func {
				r.tests[id.Text] = f.Path
			}
		}
	}
	r.learnPlans()
}

// learnPlans reads what may be spoken of before it exists.
func (r *references) learnPlans() {
	text, err := fs.ReadFile(r.r.FS, plannedFile)
	if err != nil {
		r.say(plannedFile, 0, "%v", err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		name, what, ok := strings.Cut(line, " : ")
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case !ok || !strings.Contains(what, "planned"):
			r.say(plannedFile, i+1, "want `name : planned, for what`")
		default:
			r.planned[strings.TrimSpace(name)] = i + 1
		}
	}
}

func (r *references) headings(p string) {
	text, err := fs.ReadFile(r.r.FS, p)
	if err != nil {
		return // gone again
	}
	r.anchors[p] = map[string]bool{}
	for line := range strings.Lines(string(text)) {
		head := strings.TrimLeft(line, "#")
		if head == line || !strings.HasPrefix(head, " ") {
			continue
		}
		head = strings.TrimSpace(head)
		r.anchors[p][anchor(head)] = true
		if code, _, ok := strings.Cut(head, ":"); ok && strings.HasPrefix(p, "docs/") &&
			codeRef.FindString(code) == code {
			r.codes[code] = true
		}
	}
}

// anchor is the name that readers of pages give a heading.
func anchor(head string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c > 127:
			return c
		}
		return -1
	}, strings.ToLower(head))
}

// file looks through the comments of a Go file and the names of its tests.
func (r *references) file(f *File) {
	full, cited := false, 0
	for _, group := range f.Comments {
		var all strings.Builder
		for _, c := range group {
			r.text(f.Path, c.Line, c.Text)
			all.WriteString(strings.TrimPrefix(c.Text, "//"))
			if r.codesIn(f.Path, c) && cited == 0 {
				cited = c.Line
			}
		}
		full = full || inFull.MatchString(all.String())
	}
	if cited > 0 && !full {
		r.say(f.Path, cited, "cites an invariant; say once in full which: invariant I8")
	}
	for _, message := range f.Strings {
		if strings.Contains(message.Text, " ") {
			r.codesIn(f.Path, message)
		}
	}
	for _, id := range f.Names {
		if m := codedName.FindStringSubmatch(id.Text); m != nil && !r.codes[m[1]] {
			r.say(f.Path, id.Line, "%s is named by a code; name it by what it shows", id.Text)
		}
	}
}

// codesIn tells whether a text cites what a page of docs defines by a code, and finds the codes that none defines.
func (r *references) codesIn(p string, t Text) (cites bool) {
	for _, code := range codeRef.FindAllString(t.Text, -1) {
		if r.codes[code] || r.isPlanned(code) {
			cites = true
		} else {
			r.say(p, t.Line, "cites %s, which no page of docs defines; say it in words", code)
		}
	}
	return cites
}

// script looks through the comments of a transcript.
func (r *references) script(p string) {
	text, err := fs.ReadFile(r.r.FS, p)
	if err != nil {
		return // gone again
	}
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "#") {
			r.codesIn(p, Text{i + 1, line})
		}
	}
}

// invariants demands of each invariant's section that it says what judges it and what feeds the judge, and what shows
// it with several servers.
func (r *references) invariants(text string) {
	head, line := "", 0
	var section strings.Builder
	judge := func() {
		if head != "" && !judgedRef.MatchString(strings.Join(strings.Fields(section.String()), " ")) {
			r.say(invariantsPage, line, "%s does not say: judged by the oracle rule `…`, fed by …", head)
		}
		if head != "" {
			r.several(head, line, section.String())
		}
		head = ""
		section.Reset()
	}
	for i, l := range strings.Split(text, "\n") {
		if strings.HasPrefix(l, "## ") {
			judge()
			if m := invariantHead.FindStringSubmatch(l); m != nil {
				head, line = m[1], i+1
			}
		}
		section.WriteString(l + "\n")
	}
	judge()
}

// several demands of an invariant's section tests that have several servers, or the word that none takes part.
func (r *references) several(head string, line int, section string) {
	_, said, ok := strings.Cut(strings.Join(strings.Fields(section), " "), "- with several servers: ")
	shown := strings.HasPrefix(said, "no server takes part")
	for _, m := range testRef.FindAllStringSubmatch(said, -1) {
		text, err := fs.ReadFile(r.r.FS, r.tests[m[1]])
		if err == nil && !severalServers.Match(text) {
			r.say(invariantsPage, line, "%s names %s for several servers, which has one", head, m[1])
		}
		shown = shown || err == nil
	}
	if !ok || !shown {
		r.say(invariantsPage, line, "%s does not say: with several servers: … and a test, or: no server takes part",
			head)
	}
}

// page looks through a page. Records that a later one has superseded tell of what was.
func (r *references) page(p string) {
	text, err := fs.ReadFile(r.r.FS, p)
	if err != nil || strings.Contains(string(text), "**Superseded") {
		return
	}
	if p == invariantsPage {
		r.invariants(string(text))
	}
	for i, line := range strings.Split(string(text), "\n") {
		r.text(p, i+1, line)
		for _, m := range linkRef.FindAllStringSubmatch(line, -1) {
			r.link(p, i+1, m[1])
		}
		for _, m := range testRef.FindAllStringSubmatch(line, -1) {
			if r.tests[m[1]] == "" {
				r.say(p, i+1, "names the test %s, which does not exist", m[1])
			}
		}
		for _, m := range oracleRef.FindAllStringSubmatch(line, -1) {
			if !r.hasOracle(m[1]) {
				r.say(p, i+1, "names the oracle's rule %s, which does not exist", m[1])
			}
		}
	}
}

func (r *references) link(p string, line int, to string) {
	if strings.Contains(to, "://") {
		return
	}
	file, head, _ := strings.Cut(to, "#")
	target := p
	if file != "" {
		target = path.Join(path.Dir(p), file)
	}
	switch {
	case !r.paths[target]:
		r.say(p, line, "links to %s, which does not exist", to)
	case head != "" && !r.anchors[target][head]:
		r.say(p, line, "links to %s, a section that does not exist", to)
	}
}

// text looks for references of every form in one line.
func (r *references) text(p string, line int, text string) {
	if outside.MatchString(text) {
		return
	}
	if sectionRef.MatchString(text) {
		r.say(p, line, "cites a section by number; link to its heading: docs/PAGE.md#heading")
	}
	for _, m := range recordRef.FindAllStringSubmatch(text, -1) {
		if !slices.ContainsFunc(r.r.Texts, func(have string) bool {
			return strings.HasPrefix(have, "docs/adr/"+m[1]+"-")
		}) {
			r.missing(p, line, "ADR "+m[1])
		}
	}
	seen := map[string]bool{}
	for _, form := range []struct {
		re    *regexp.Regexp
		there func(p, name string) bool
	}{{pageRef, r.hasPage}, {testdataRef, r.hasPath}, {sourceRef, r.hasSource}, {packageRef, r.hasPath},
		{shortRef, r.hasShort}} {
		for _, at := range form.re.FindAllStringIndex(text, -1) {
			name := strings.TrimRight(text[at[0]:at[1]], ".-/")
			before, after := text[:at[0]], text[at[1]:]
			if strings.HasSuffix(before, "/") || strings.HasSuffix(before, "*") || strings.HasSuffix(before, ".") ||
				goesOn.MatchString(after) {
				continue // a piece of a longer path, or a pattern
			}
			if !seen[name] && !example.MatchString(name) && !form.there(p, name) {
				r.missing(p, line, name)
			}
			seen[name] = true
		}
	}
}

func (r *references) missing(p string, line int, name string) {
	if !r.isPlanned(name) {
		r.say(p, line, "refers to %s, which does not exist", name)
	}
}

func (r *references) isPlanned(name string) bool {
	_, ok := r.planned[name]
	r.met[name] = r.met[name] || ok
	return ok
}

func (r *references) hasPage(p, name string) bool {
	name, head, _ := strings.Cut(name, "#")
	for _, dir := range []string{path.Dir(p), ".", "docs", "docs/adr", "docs/guides", "docs/reference"} {
		if at := path.Join(dir, name); r.paths[at] {
			return head == "" || r.anchors[at][head]
		}
	}
	return false
}

// hasPath finds a file, a folder, or a name of the package in a folder, from the root or beside p.
func (r *references) hasPath(p, name string) bool {
	for _, dir := range []string{".", path.Dir(p)} {
		at := path.Join(dir, name)
		ident := strings.TrimSuffix(at, path.Ext(at))
		if r.paths[at] || r.folders[ident] {
			return true
		}
	}
	return strings.Contains(name, "testdata/") && r.hasSuffix(name)
}

func (r *references) hasSource(p, name string) bool {
	return r.paths[path.Join(path.Dir(p), name)] || r.hasSuffix(name)
}

func (r *references) hasSuffix(name string) bool {
	if r.paths[name] {
		return true
	}
	for have := range r.paths {
		if strings.HasSuffix(have, "/"+name) {
			return true
		}
	}
	return false
}

// hasShort finds a package by the end of its path: "server/claims".
func (r *references) hasShort(p, name string) bool { return r.hasPath(p, name) || r.hasSuffix(name) }

func (r *references) hasOracle(name string) bool {
	return slices.ContainsFunc(r.r.Files, func(f *File) bool {
		return path.Base(f.Dir) == "oracle" && slices.ContainsFunc(f.Names, func(id Name) bool {
			return (id.Kind == Type || id.Kind == Func) && id.Text == name
		})
	})
}
