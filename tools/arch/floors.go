package arch

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

const floorsFile = "tools/arch/floors.txt"

// floors is what floors.txt says.
type floors struct {
	heights []statement // floor N: patterns
	denials []statement // deny: from -> to
	onlys   []statement // only: target in users
	amongs  []statement // among: family, edges
	closed  []statement // closure: package, allowed
	planned []string
	lineOf  map[string]int
	wrong   []Finding
}

// statement is one line of the file. What left and right mean depends on the word that begins it.
type statement struct {
	line   int
	height int
	left   []string
	right  []string
	reason string
}

// parseFloors reads the rules. Its forms are explained at the head of the file itself.
func parseFloors(text string) floors {
	fl := floors{lineOf: map[string]int{}}
	for i, raw := range strings.Split(text, "\n") {
		line := strings.TrimSpace(raw)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := fl.add(i+1, line); err != nil {
			fl.wrong = append(fl.wrong, Finding{Path: floorsFile, Line: i + 1, Text: err.Error()})
		}
	}
	return fl
}

func (fl *floors) add(n int, line string) error {
	body, reason, ok := strings.Cut(line, " : ")
	if !ok || strings.TrimSpace(reason) == "" {
		return fmt.Errorf("%q gives no reason; write it after \" : \"", line)
	}
	words := strings.Fields(body)
	st := statement{line: n, reason: strings.TrimSpace(reason)}
	split := func(by string) error {
		i := slices.Index(words, by)
		if i < 2 || i == len(words)-1 {
			return fmt.Errorf("%q needs names on both sides of %q", body, by)
		}
		st.left, st.right = words[1:i], words[i+1:]
		return nil
	}
	var err error
	switch words[0] {
	case "floor":
		if len(words) < 3 {
			return fmt.Errorf("%q names no package", body)
		}
		st.height, err = strconv.Atoi(words[1])
		st.left = words[2:]
		fl.heights = append(fl.heights, st)
	case "deny":
		err = split("->")
		fl.denials = append(fl.denials, st)
	case "only":
		err = split("in")
		fl.onlys = append(fl.onlys, st)
	case "among":
		err = split("edges")
		fl.amongs = append(fl.amongs, st)
	case "closure":
		err = split("within")
		fl.closed = append(fl.closed, st)
	case "planned":
		fl.planned = append(fl.planned, words[1:]...)
		for _, w := range words[1:] {
			fl.lineOf[w] = n
		}
	default:
		err = fmt.Errorf("no rule begins with %q", words[0])
	}
	return err
}

func checkFloors(t *Tree) []Finding {
	text, err := fs.ReadFile(t.FS, floorsFile)
	if err != nil {
		return []Finding{{Path: floorsFile, Text: err.Error()}}
	}
	fl := parseFloors(string(text))
	out := slices.Concat(fl.wrong, fl.stale(t))
	for _, p := range t.Sorted() {
		out = append(out, fl.place(p)...)
		for _, f := range p.Files {
			out = append(out, fl.imports(t, f)...)
		}
	}
	for _, st := range fl.closed {
		out = append(out, closure(t, st)...)
	}
	return out
}

// stale finds names of packages that don't exist, and plans that came true.
func (fl floors) stale(t *Tree) []Finding {
	exists := func(pattern string) bool {
		return slices.ContainsFunc(t.Sorted(), func(p *Package) bool { return matches(pattern, p.Dir) })
	}
	var out []Finding
	for _, p := range fl.planned {
		if exists(p + "/**") {
			out = append(out,
				Finding{
					Path: floorsFile,
					Line: fl.lineOf[p],
					Text: p + " exists: take it off the list of planned packages",
					Why:  "the list of planned packages only shrinks",
				})
		}
	}
	for _, st := range slices.Concat(fl.heights, fl.denials, fl.onlys, fl.amongs, fl.closed) {
		for _, name := range slices.Concat(st.left, st.right) {
			for part := range strings.SplitSeq(name, ">") {
				if ours(part) && !exists(part) && !slices.Contains(fl.planned, strings.TrimSuffix(part, "/**")) {
					out = append(out,
						Finding{
							Path: floorsFile,
							Line: st.line,
							Text: "no package " + part,
							Why:  "a rule about a package that is not there guards nothing",
						})
				}
			}
		}
	}
	return out
}

// ours tells packages of this module from those outside by their first folder.
func ours(pattern string) bool {
	first, _, _ := strings.Cut(pattern, "/")
	return slices.Contains([]string{"internal", "cmd", "api", "pluginproto", "jobspec", "tools", "e2e"}, first)
}

// place finds packages without a floor and packages with two.
func (fl floors) place(p *Package) []Finding {
	var on []int
	for _, st := range fl.heights {
		if matchesAny(st.left, p.Dir) {
			on = append(on, st.height)
		}
	}
	if len(on) == 1 || p.Name == "" {
		return nil
	}
	return []Finding{{
		Path: p.Dir,
		Text: fmt.Sprintf("is on %d floors", len(on)),
		Why:  "every package has one place in " + floorsFile,
	}}
}

func (fl floors) height(dir string) (int, string) {
	for _, st := range fl.heights {
		if matchesAny(st.left, dir) {
			return st.height, st.reason
		}
	}
	return -1, ""
}

// imports checks every import of a file. Tests may climb to fixtures and to the parts that they test together, but the
// halves and the leaves stay apart for them too where a denial says so.
func (fl floors) imports(t *Tree, f *File) []Finding {
	var out []Finding
	own, _ := fl.height(f.Pkg.Dir)
	for _, spec := range f.Imports() {
		target, local := t.Local(importPath(spec))
		if !local {
			target = importPath(spec)
		}
		if target == f.Pkg.Dir {
			continue
		}
		report := func(why, format string, args ...any) {
			finding := t.at(f, spec, format, args...)
			finding.Why = why
			out = append(out, finding)
		}
		for _, st := range fl.denials {
			if matchesAny(st.left, f.Pkg.Dir) && matchesAny(st.right, target) {
				report(st.reason, "%s imports %s", f.Pkg.Dir, target)
			}
		}
		if f.Test {
			continue
		}
		if h, why := fl.height(target); local && h > own {
			report(why, "%s (floor %d) imports %s (floor %d)", f.Pkg.Dir, own, target, h)
		}
		for _, st := range fl.onlys {
			if matchesAny(st.left, target) && !matchesAny(st.right, f.Pkg.Dir) && !matchesAny(st.left, f.Pkg.Dir) {
				report(st.reason, "%s imports %s", f.Pkg.Dir, target)
			}
		}
		for _, st := range fl.amongs {
			if matchesAny(st.left, target) && matchesAny(st.left, f.Pkg.Dir) &&
				!slices.Contains(st.right, f.Pkg.Dir+">"+target) {
				report(st.reason, "%s imports %s", f.Pkg.Dir, target)
			}
		}
	}
	return out
}

// closure checks all that a package imports, directly or through packages of this module.
func closure(t *Tree, st statement) []Finding {
	var out []Finding
	seen := map[string]bool{}
	var visit func(dir, chain string)
	visit = func(dir, chain string) {
		p := t.Packages[dir]
		if p == nil || seen[dir] {
			return
		}
		seen[dir] = true
		for _, f := range p.Code() {
			for _, spec := range f.Imports() {
				target, local := t.Local(importPath(spec))
				if !local {
					target = importPath(spec)
				}
				if !matchesAny(st.right, target) {
					finding := t.at(f, spec, "%s imports %s", chain, target)
					finding.Why = st.reason
					out = append(out, finding)
				} else if local {
					visit(target, chain+" > "+target)
				}
			}
		}
	}
	for _, dir := range st.left {
		visit(dir, dir)
	}
	return out
}
