package main

import (
	"fmt"
	"strings"
)

// page is the help of a command.
type page struct {
	name  string   // "berth-job-run"
	words []string // by which the command is called: job, run
	short string
	above string // name of the noun's page

	synopsis string
	blocks   []block
}

// block is a piece of a help. Help has paragraphs at the margin, and under titles what is indented.
type block struct {
	title string // of a section; empty: text that belongs to what is before
	lines []string
}

// read splits a help into its parts.
func (p *page) read(help string) {
	lines := strings.Split(strings.TrimRight(help, "\n"), "\n")
	p.synopsis = strings.TrimPrefix(lines[0], "Usage: ")
	var b block
	flush := func() {
		if len(b.lines) > 0 || b.title != "" {
			p.blocks = append(p.blocks, b)
		}
		b = block{}
	}
	for i, line := range lines[1:] {
		next := ""
		if i+2 < len(lines) {
			next = lines[i+2]
		}
		switch {
		case line == "" && (next == "" || indented(next)): // within what is indented
			if len(b.lines) > 0 && indented(b.lines[len(b.lines)-1]) {
				b.lines = append(b.lines, "")
			}
		case line == "":
			flush()
		case strings.HasSuffix(line, ":") && len(b.lines) == 0 && indented(next):
			flush()
			b.title = strings.TrimSuffix(line, ":")
		default:
			b.lines = append(b.lines, line)
		}
	}
	flush()
}

func indented(line string) bool { return strings.HasPrefix(line, "  ") }

// commands are the pages of the commands that the help lists.
func (p *page) commands() (out []page) {
	for _, b := range p.blocks {
		if b.title != "Commands" {
			continue
		}
		for _, line := range b.lines {
			name, short, _ := strings.Cut(strings.TrimSpace(line), "  ")
			out = append(out, page{
				name:  p.name + "-" + name,
				words: append(append([]string(nil), p.words...), name),
				short: strings.TrimSpace(short),
				above: p.name,
			})
		}
	}
	return out
}

// roff is the page in the language of man.
func (p *page) roff(version string) string {
	var b strings.Builder
	title := strings.ToUpper(p.name)
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s \"Berth\"\n", escape(title), quoted(version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(p.name), escape(p.short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n", escape(p.synopsis))
	for _, k := range p.blocks {
		k.roff(&b, p.name)
	}
	var see []string
	if p.above != "" {
		see = append(see, p.above)
	}
	for _, c := range p.commands() {
		see = append(see, c.name)
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, name := range see {
		end := ","
		if i == len(see)-1 {
			end = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", escape(name), end)
	}
	return b.String()
}

// roff writes a block: what is at the margin as a paragraph, flags and commands as a list, and else what is indented as
// it is.
func (k block) roff(b *strings.Builder, page string) {
	if k.title != "" {
		fmt.Fprintf(b, ".SH %s\n", quoted(strings.ToUpper(k.title)))
	} else {
		b.WriteString(".PP\n")
	}
	literal := false
	for i, line := range k.lines {
		text := strings.TrimPrefix(line, "  ")
		flag := strings.HasPrefix(line, "  -")
		usage := i > 0 && strings.HasPrefix(line, "        ") && strings.HasPrefix(k.lines[i-1], "  -")
		plain := !indented(line) && line != ""
		if literal != (!flag && !usage && !plain && k.title != "Commands") {
			literal = !literal
			b.WriteString(map[bool]string{true: ".PP\n.nf\n.RS 4\n", false: ".RE\n.fi\n"}[literal])
		}
		switch {
		case flag:
			fmt.Fprintf(b, ".TP\n.B %s\n", escape(text))
		case usage:
			fmt.Fprintf(b, "%s\n", escape(strings.TrimSpace(text)))
		case k.title == "Commands":
			name, short, _ := strings.Cut(text, "  ")
			fmt.Fprintf(b, ".TP\n.BR %s (1)\n%s\n", escape(page+"-"+name), escape(strings.TrimSpace(short)))
		default:
			fmt.Fprintf(b, "%s\n", escape(text))
		}
	}
	if literal {
		b.WriteString(".RE\n.fi\n")
	}
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...")

// escape writes a text so that it means itself.
func escape(text string) string {
	text = roffEscapes.Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

// quoted is an argument of a request.
func quoted(text string) string { return `"` + strings.ReplaceAll(escape(text), `"`, `\(dq`) + `"` }
