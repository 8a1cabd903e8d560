package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// luaKind is the kind of a token.
type luaKind int

const (
	luaName luaKind = iota // a name or a keyword
	luaNumber
	luaString
	luaOperator
)

// luaToken is a token of a Lua script, without comments.
type luaToken struct {
	kind   luaKind
	text   string
	offset int
	line   int
	column int // of the first byte, from 0
}

func (t luaToken) end() int { return t.offset + len(t.text) }

// luaTokens splits a script into tokens. Redis runs Lua 5.1.
func luaTokens(source string) ([]luaToken, error) {
	var tokens []luaToken
	line, lineStart := 1, 0
	for at := 0; at < len(source); {
		rest := source[at:]
		kind, length := luaOperator, 1
		switch c := rest[0]; {
		case c == '\n':
			line, lineStart, at = line+1, at+1, at+1
			continue
		case c == ' ' || c == '\t' || c == '\r':
			at++
			continue
		case strings.HasPrefix(rest, "--"):
			if strings.HasPrefix(rest, "--[[") || strings.HasPrefix(rest, "--[=") {
				return nil, fmt.Errorf("line %d: long comments are not supported", line)
			}
			if end := strings.IndexByte(rest, '\n'); end >= 0 {
				at += end
			} else {
				at = len(source)
			}
			continue
		case strings.HasPrefix(rest, "[[") || strings.HasPrefix(rest, "[="):
			return nil, fmt.Errorf("line %d: long strings are not supported", line)
		case isLetter(c):
			kind, length = luaName, prefixLength(rest, func(c byte) bool { return isLetter(c) || isDigit(c) })
		case isDigit(c):
			kind, length = luaNumber, prefixLength(rest, func(c byte) bool { return isLetter(c) || isDigit(c) || c == '.' })
			if dots := strings.Index(rest[:length], ".."); dots >= 0 {
				length = dots // 1 .. 'text' without spaces
			}
		case c == '\'' || c == '"':
			kind, length = luaString, stringLength(rest)
			if length < 0 {
				return nil, fmt.Errorf("line %d: the string does not end", line)
			}
		default:
			for _, operator := range []string{"...", "..", "==", "~=", "<=", ">="} {
				if strings.HasPrefix(rest, operator) {
					length = len(operator)
					break
				}
			}
		}
		tokens = append(tokens, luaToken{kind: kind, text: rest[:length], offset: at, line: line, column: at - lineStart})
		at += length
	}
	return tokens, nil
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

func prefixLength(text string, in func(byte) bool) int {
	for i := range len(text) {
		if !in(text[i]) {
			return i
		}
	}
	return len(text)
}

// stringLength returns the length of the string literal at the start of text, -1 if it does not end in its line.
func stringLength(text string) int {
	for i := 1; i < len(text) && text[i] != '\n'; i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return -1
}

// luaMutants returns the mutants of the Lua scripts in folder.
func luaMutants(root, folder string) ([]*Mutant, error) {
	files, err := filepath.Glob(filepath.Join(root, folder, "*.lua"))
	if err != nil {
		return nil, err
	}
	var mutants []*Mutant
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := filepath.ToSlash(filepath.Join(folder, filepath.Base(file)))
		found, err := mutateLua(string(source))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, m := range found {
			m.Package, m.File = filepath.ToSlash(folder), name
			m.show(source)
		}
		mutants = append(mutants, found...)
	}
	return mutants, nil
}

// mutateLua returns the mutants of a script: they have Rule, In, offset, length and text.
func mutateLua(source string) ([]*Mutant, error) {
	tokens, err := luaTokens(source)
	if err != nil {
		return nil, err
	}
	var mutants []*Mutant
	add := func(rule string, from, to int, text string) {
		mutants = append(mutants, &Mutant{Rule: rule, offset: from, length: to - from, text: text, In: luaFunction(tokens, from)})
	}
	for i, token := range tokens {
		replace := func(rule, text string) { add(rule, token.offset, token.end(), text) }
		switch token.kind {
		case luaOperator:
			mutateLuaOperator(tokens, i, replace)
		case luaNumber:
			mutateLuaNumber(tokens, i, replace)
		case luaName:
			mutateLuaName(tokens, i, replace)
			if from, to, ok := bareCondition(tokens, i); ok {
				add("negate condition", from, to, "not ("+source[from:to]+")")
			}
		case luaString:
		}
	}
	for _, statement := range luaStatements(tokens) {
		if droppable(statement) {
			add("drop statement", statement[0].offset, statement[len(statement)-1].end(), "")
		}
	}
	slices.SortStableFunc(mutants, func(a, b *Mutant) int { return a.offset - b.offset })
	return mutants, nil
}

func mutateLuaOperator(tokens []luaToken, i int, replace func(rule, text string)) {
	switch tokens[i].text {
	case "-":
		if !endsExpression(tokens, i-1) {
			replace("drop minus", "")
			return
		}
		replace("arithmetic", "+")
	case "+":
		replace("arithmetic", "-")
	case "*":
		replace("arithmetic", "/")
	case "/", "%":
		replace("arithmetic", "*")
	case "<":
		replace("boundary", "<=")
		replace("comparison", ">=")
	case "<=":
		replace("boundary", "<")
		replace("comparison", ">")
	case ">":
		replace("boundary", ">=")
		replace("comparison", "<=")
	case ">=":
		replace("boundary", ">")
		replace("comparison", "<")
	case "==":
		replace("comparison", "~=")
	case "~=":
		replace("comparison", "==")
	}
}

// mutateLuaNumber changes a constant by one in both directions. An index and 0 are only increased: KEYS[0] and a negative
// length fail in every test, so such a mutant shows nothing.
func mutateLuaNumber(tokens []luaToken, i int, replace func(rule, text string)) {
	n, err := strconv.ParseInt(tokens[i].text, 0, 64)
	if err != nil {
		return // a fraction
	}
	replace("constant", strconv.FormatInt(n+1, 10))
	isIndex := i > 0 && i+1 < len(tokens) && tokens[i-1].text == "[" && tokens[i+1].text == "]"
	if n != 0 && !isIndex {
		replace("constant", strconv.FormatInt(n-1, 10))
	}
}

func mutateLuaName(tokens []luaToken, i int, replace func(rule, text string)) {
	if i > 0 && tokens[i-1].text == "." && (i < 2 || tokens[i-2].text != "math") {
		return // a field
	}
	called := i+1 < len(tokens) && tokens[i+1].text == "("
	switch text := tokens[i].text; text {
	case "and":
		replace("logic", "or")
	case "or":
		replace("logic", "and")
	case "not":
		replace("logic", "")
	case "true":
		replace("constant", "false")
	case "false":
		replace("constant", "true")
	case "min", "max", "floor", "ceil":
		if called {
			replace("function", map[string]string{"min": "max", "max": "min", "floor": "ceil", "ceil": "floor"}[text])
		}
	}
}

// endsExpression reports whether an expression can end with token i.
func endsExpression(tokens []luaToken, i int) bool {
	if i < 0 {
		return false
	}
	switch t := tokens[i]; t.kind {
	case luaNumber, luaString:
		return true
	case luaName:
		return !isLuaKeyword(t.text) || slices.Contains([]string{"nil", "true", "false", "end"}, t.text)
	case luaOperator:
		return slices.Contains([]string{")", "]", "}", "..."}, t.text)
	}
	return false
}

// continuesExpression reports whether a token continues the expression before it, as an operator between two operands does.
func continuesExpression(t luaToken) bool {
	switch t.kind {
	case luaName:
		return t.text == "and" || t.text == "or"
	case luaOperator:
		return !slices.Contains([]string{"{", "(", "#", ";"}, t.text)
	case luaNumber, luaString:
	}
	return false
}

func isLuaKeyword(text string) bool {
	return slices.Contains([]string{
		"and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in",
		"local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
	}, text)
}

// bareCondition returns the source range of the condition after the keyword i, if it has no operator that another mutant
// changes.
func bareCondition(tokens []luaToken, i int) (from, to int, ok bool) {
	if text := tokens[i].text; text != "if" && text != "elseif" && text != "while" {
		return 0, 0, false
	}
	for j := i + 1; j < len(tokens); j++ {
		switch tokens[j].text {
		case "then", "do":
			return tokens[i+1].offset, tokens[j-1].end(), j > i+1
		case "==", "~=", "<", ">", "<=", ">=", "not", "and", "or", "function":
			return 0, 0, false
		}
	}
	return 0, 0, false
}

// luaFunction returns the name of the function around offset. Functions of the scripts start and end in the first column.
func luaFunction(tokens []luaToken, offset int) string {
	name := ""
	for i, t := range tokens {
		if t.offset > offset {
			break
		}
		switch {
		case t.column > 0:
		case t.text == "end":
			name = ""
		case t.text == "local" && i+2 < len(tokens) && tokens[i+1].text == "function":
			name = tokens[i+2].text
		}
	}
	return name
}

// luaStatements groups the tokens into lines. A line that does not complete its last expression continues in the next one.
func luaStatements(tokens []luaToken) [][]luaToken {
	var statements [][]luaToken
	depth, start := 0, 0
	for i, t := range tokens {
		if i > start && t.line > tokens[i-1].line && depth == 0 && !continuesExpression(t) &&
			(endsExpression(tokens, i-1) || isLuaKeyword(tokens[i-1].text) && tokens[i-1].text != "and" && tokens[i-1].text != "or" && tokens[i-1].text != "not") {
			statements = append(statements, tokens[start:i])
			start = i
		}
		switch t.text {
		case "(", "{", "[":
			depth++
		case ")", "}", "]":
			depth--
		}
	}
	if start < len(tokens) {
		statements = append(statements, tokens[start:])
	}
	return statements
}

// droppable reports whether a script without the statement compiles. Declarations are not dropped: a later use of an
// undeclared name fails in Redis, so such a mutant shows nothing.
func droppable(statement []luaToken) bool {
	first := statement[0]
	if first.kind != luaName || isLuaKeyword(first.text) && !slices.Contains([]string{"if", "for", "while", "return", "break"}, first.text) {
		return false
	}
	blocks := 0
	for _, t := range statement {
		switch t.text {
		case "function", "if", "do", "repeat":
			blocks++
		case "end", "until":
			blocks--
		case "else", "elseif":
			if blocks == 0 {
				return false
			}
		}
		if blocks < 0 {
			return false
		}
	}
	return blocks == 0
}
