package cli_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/internal/cli"
)

// named is a command that a text of the program names.
type named struct {
	place string
	words []string
	// whole: it is there to be typed. A name in quotes, without flags and arguments, only says of which command the
	// text speaks.
	whole bool
}

// TestACommandThatIsNamedCanBeTyped: given every command that a text of the program names, in a message, a hint or a
// help, when it is typed as it stands there, then there is such a command, it knows the flags and takes their values,
// and neither a flag nor an argument is missing.
func TestACommandThatIsNamedCanBeTyped(t *testing.T) {
	var all []named
	for _, dir := range []string{"../../internal", "../../cmd", "../../api", "../../jobspec"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || d.Name() == "testkit"):
				return filepath.SkipDir
			case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go"):
				found, err := namedIn(path)
				all = append(all, found...)
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(t.TempDir()) // some write files
	for _, n := range all {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // to run out: some follow what comes
		got := inMemory(ctx, n.words...)
		cancel()
		missing := got.code == 127 || strings.Contains(got.stderr, ` -help")`)
		if n.whole && missing || got.code == 127 {
			t.Errorf("%s: berth %s: %s", n.place, strings.Join(n.words, " "), got.stderr)
		}
	}
	if len(all) < 150 {
		t.Errorf("only %d commands were found in the texts", len(all))
	}
}

// namedIn lists the commands that the texts of a Go file name. What a text takes from elsewhere is a word, too.
func namedIn(path string) (out []named, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch e := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit, *ast.BinaryExpr:
			text, ok := textOf(e.(ast.Expr))
			for _, found := range namedBy(text) {
				found.place = fmt.Sprintf("%s:%d", path, files.Position(n.Pos()).Line)
				out = append(out, found)
			}
			return !ok
		}
		return true
	})
	return out, nil
}

var verb = regexp.MustCompile(`%[+#]?[a-z.0-9]*[a-z]`)

// textOf is the text of an expression, with a word for each value that is not written there.
func textOf(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return verb.ReplaceAllString(text, "1"), err == nil
	case *ast.ParenExpr:
		return textOf(e.X)
	case *ast.BinaryExpr:
		left, okLeft := textOf(e.X)
		right, okRight := textOf(e.Y)
		if e.Op != token.ADD || !okLeft && !okRight {
			return "", false
		}
		if !okRight && strings.HasSuffix(left, " ") {
			right = "1" // else it is a continuation, perhaps an empty one
		}
		return left + right, true
	}
	return "", false
}

var (
	nouns = func() (out []string) {
		for _, leaf := range cli.Leaves() {
			noun, _, _ := strings.Cut(leaf, " ")
			out = append(out, noun)
		}
		return append(out, "agent")
	}()
	start = regexp.MustCompile(`(^|[^a-z0-9./_-])berth ([a-z][a-z-]*)`)
	ends  = regexp.MustCompile(`\n| && | \|\|? | > |  +#| or berth | and berth |</| \(`)
)

// namedBy lists the commands that a text names. One in quotes ends with them; another one with its line, or with the
// first word that ends like a clause.
func namedBy(text string) (out []named) {
	for _, at := range start.FindAllStringSubmatchIndex(text, -1) {
		rest := text[at[4]:]
		if before := text[at[2]:at[3]]; before == `"` || before == "`" {
			line, _, closed := strings.Cut(rest, before)
			if !closed {
				continue // a quote that somebody else ends
			}
			typed := words(strings.ReplaceAll(line, "\n", " "))
			whole := strings.ContainsAny(line, "<-") || slices.Contains(typed, "1")
			out = append(out, named{words: typed, whole: whole})
			continue
		}
		if end := ends.FindStringIndex(rest); end != nil {
			rest = rest[:end[0]]
		}
		typed := clause(rest)
		if !strings.HasSuffix(text[:at[4]-len("berth ")], ": ") && !slices.Contains(nouns, typed[0]) {
			continue // a sentence about the program
		}
		out = append(out, named{words: typed, whole: true})
	}
	return out
}

// clause are the words up to the first that ends like a clause, what is between quotes being one.
func clause(text string) (typed []string) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		if quote := text[:1]; quote == `"` || quote == "'" {
			word, rest, _ := strings.Cut(text[1:], quote)
			typed, text = append(typed, word), rest
			continue
		}
		word, rest, _ := strings.Cut(text, " ")
		plain := strings.TrimRight(word, ";,.:)\"")
		if plain == "" && word != "..." {
			return typed
		}
		if typed, text = append(typed, plain), rest; plain != word {
			return typed
		}
	}
	return typed
}
