package arch

import (
	"fmt"
	"go/ast"
	"go/token"

	"berth/tools/arch/layout"
	"berth/tools/arch/prose"
)

// Rule is a law that syntax can show to be broken.
type Rule struct {
	Name   string
	Reason string // printed with every finding, so that the reader learns why and not only where
	Check  func(*Tree) []Finding
}

// Finding is one place where a rule is broken.
type Finding = prose.Finding

// Rules lists every rule.
func Rules() []Rule {
	return []Rule{
		{"floors", "a package imports only lower floors; what may know what is a decision, written in " +
			"tools/arch/floors.txt", checkFloors},
		{"goroutines",
			"a goroutine that nobody joins outlives its owner and races with its end: start it in a lifecycle.Group " +
				"(law 3)", checkGoroutines},
		{"contexts in structs",
			"a stored context belongs to a call that has ended: pass it as the first argument (law 3)",
			checkContextFields},
		{"context roots",
			"a context made from nothing is cancelled by nobody: only main programs and the agent have the right to " +
				"one (law 3)", checkContextRoots},
		{"determinism",
			"servers replay the same log and must come to the same bytes; flows and the scheduler get time and " +
				"chance as data (law 4)", checkDeterminism},
		{"errors", "an error's text is for people: its identity is its kind, kept by %w and base/fault across every " +
			"hop (law 5)", checkErrors},
		{"secrets", "a secret in plain text is printed by the first %+v: hold it as redact.Secret, or refer to it by " +
			"name (law 6)", checkSecrets},
		{"flows", "a flow is a pure state machine: state and facts in, next steps out, tested state by state",
			checkFlows},
		{"commands",
			"a replicated command has one package that proposes it, or nobody answers for the state it changes",
			checkCommands},
		{"budgets", "a room that one person can hold in the head: split by responsibility; exceptions stand in " +
			"tools/arch/ratchet.txt and only shrink (law 9)", checkBudgets},
		{"glossary",
			"one word, one meaning: docs/GLOSSARY.md says which words are banned where, and what to say instead",
			onProse(prose.Glossary)},
		{"package docs",
			"a newcomer reads the package's first sentence: it says what the package owns and who may import it",
			checkPackageDocs},
		{"identifier docs", "an exported identifier has a sentence, or its meaning lives in one head",
			checkIdentifierDocs},
		{"field words",
			"a term that engineers know wins over one of our own, and a word has one meaning: docs/GLOSSARY.md, " +
				"Words of the field",
			onProse(prose.FieldWords)},
		{"words", "the repository speaks of Berth alone: tools/arch/words.txt lists what has no place in it",
			onProse(prose.Words)},
		{"references",
			"a reader who follows a reference must find something at its end; what is planned stands in " +
				"tools/arch/planned.txt", onProse(prose.References)},
		{"unused", "nothing that nobody calls: delete it; what stands for an announced feature is listed in " +
			"tools/arch/kept.txt, which only shrinks", checkUnused},
		{"busy machine",
			"a machine under load takes its time: outside of synctest, wait for the event itself and give up after " +
				"30 s or more; a product's bound is a benchmark; a context that is there to run out says so in a " +
				"comment", checkBusyMachine},
		{"columns", "a line that fits on the screen is read, a longer one is guessed: 120 columns, a tab counts four " +
			"(docs/adr/0028-lines-breathe.md)", onLayout(layout.Columns)},
		{"fields", "a literal of more than four fields is a list, and a list has a line for each " +
			"(docs/adr/0028-lines-breathe.md)", onLayout(layout.Fields)},
		{"tuples", "of three values in a row nobody sees which goes where: one assignment each " +
			"(docs/adr/0028-lines-breathe.md)", onLayout(layout.Tuples)},
		{"gofmt", "one layout for all: run gofmt -w", checkFormat},
	}
}

// at makes a finding at a node of a file.
func (t *Tree) at(f *File, n ast.Node, format string, args ...any) Finding {
	return Finding{Path: f.Path, Line: t.line(n.Pos()), Text: fmt.Sprintf(format, args...)}
}

func (t *Tree) line(p token.Pos) int { return t.Fset.Position(p).Line }

// eachCode calls fn for every file that is built into programs.
func (t *Tree) eachCode(fn func(*File)) {
	for _, p := range t.Sorted() {
		for _, f := range p.Code() {
			fn(f)
		}
	}
}
