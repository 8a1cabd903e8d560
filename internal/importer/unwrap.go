package importer

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-dev/weir/internal/policyfile"
)

// Unwrap replaces each ConfigMap and Secret in the files by the configurations in it: a configuration in a cluster is usually in one of them. They
// become files of the same name, with the lines at which they are in the original, so that findings have the right lines. A value whose lines are not
// those of the file, such as one in base64, becomes a file with the key in its name: a.yaml(config.yaml). Objects without a configuration stay. A text is a
// configuration if it has a mapping with all keys of one of the roots.
func Unwrap(files []policyfile.File, roots ...[]string) []policyfile.File {
	var unwrapped []policyfile.File
	for _, file := range files {
		var rest strings.Builder
		var inside []policyfile.File
		line := 0
		for _, text := range documents(string(file.Content)) {
			found := configurations(file.Name, text, line, roots)
			lines := strings.Count(text, "\n")
			if len(found) > 0 {
				inside = append(inside, found...)
				rest.WriteString(strings.Repeat("\n", lines))
			} else {
				rest.WriteString(text)
			}
			line += lines
		}
		if len(inside) == 0 {
			unwrapped = append(unwrapped, file)
			continue
		}
		if strings.Trim(rest.String(), "-\n\r\t ") != "" {
			unwrapped = append(unwrapped, policyfile.File{Name: file.Name, Content: []byte(rest.String())})
		}
		unwrapped = append(unwrapped, inside...)
	}
	return unwrapped
}

// documents splits a file in front of the lines that begin with three dashes.
func documents(content string) (parts []string) {
	begin, offset := 0, 0
	for line := range strings.Lines(content) {
		if strings.HasPrefix(line, "---") && offset > begin {
			parts = append(parts, content[begin:offset])
			begin = offset
		}
		offset += len(line)
	}
	return append(parts, content[begin:])
}

// configurations returns the configurations in a document that is a ConfigMap or a Secret, or a list of these. The line is the number of lines before
// it.
func configurations(name, text string, line int, roots [][]string) []policyfile.File {
	if !strings.Contains(text, "ConfigMap") && !strings.Contains(text, "Secret") {
		return nil
	}
	var root yaml.Node
	if yaml.Unmarshal([]byte(text), &root) != nil || len(root.Content) == 0 {
		return nil
	}
	objects := []*yaml.Node{root.Content[0]}
	if items := valueOf(objects[0], "items"); items != nil && strings.HasSuffix(textOf(objects[0], "kind"), "List") {
		objects = items.Content
	}
	var found []policyfile.File
	for _, object := range objects {
		inBase64 := map[string]map[string]bool{ // by kind and field
			"ConfigMap": {"data": false, "binaryData": true}, "Secret": {"stringData": false, "data": true},
		}[textOf(object, "kind")]
		if len(inBase64) == 0 || textOf(object, "apiVersion") != "v1" {
			return nil
		}
		for i := 0; i+1 < len(object.Content); i += 2 {
			encoded, isData := inBase64[object.Content[i].Value]
			values := object.Content[i+1]
			if !isData || values.Kind != yaml.MappingNode {
				continue
			}
			for i := 0; i+1 < len(values.Content); i += 2 {
				file, ok := configuration(name, values.Content[i].Value, values.Content[i+1], encoded, line)
				if ok && isConfiguration(string(file.Content), roots) {
					found = append(found, file)
				}
			}
		}
	}
	return found
}

// configuration returns the value of a key as a file, and whether it can be a configuration.
func configuration(name, key string, value *yaml.Node, encoded bool, line int) (file policyfile.File, ok bool) {
	if !slices.Contains([]string{".yaml", ".yml", ".json", ""}, filepath.Ext(key)) || value.Kind != yaml.ScalarNode {
		return policyfile.File{}, false
	}
	inside := fmt.Sprintf("%s(%s)", name, key)
	if encoded {
		content, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(value.Value), ""))
		return policyfile.File{Name: inside, Content: content}, err == nil
	}
	before := line + value.Line - 1
	switch {
	case value.Style&yaml.LiteralStyle != 0:
		before++ // the text begins below the indicator
	case strings.Contains(strings.TrimRight(value.Value, "\n"), "\n"): // lines that YAML folds or quotes
		return policyfile.File{Name: inside, Content: []byte(value.Value)}, true
	case value.Style&yaml.FoldedStyle != 0:
		before++
	}
	return policyfile.File{Name: name, Content: []byte(strings.Repeat("\n", before) + value.Value)}, true
}

// isConfiguration reports whether the first document of a text that is not empty has a mapping with all keys of one of the roots.
func isConfiguration(text string, roots [][]string) bool {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var content yaml.Node
		if decoder.Decode(&content) != nil {
			return false
		}
		if len(content.Content) == 0 || content.Content[0].ShortTag() == "!!null" {
			continue
		}
		return len(nested(content.Content[0], func(n *yaml.Node) bool {
			return slices.ContainsFunc(roots, func(keys []string) bool { return hasKeys(n, keys) })
		})) > 0
	}
}

func hasKeys(n *yaml.Node, keys []string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return valueOf(n, key) == nil })
}

// nested returns the mappings in n that matches reports, in their order: n itself, or those inside. Below one of these it finds no others, and it does
// not follow aliases, so that it takes linear time.
func nested(n *yaml.Node, matches func(n *yaml.Node) bool) (found []*yaml.Node) {
	if n.Kind == yaml.MappingNode && matches(n) {
		return []*yaml.Node{n}
	}
	for _, part := range n.Content {
		found = append(found, nested(part, matches)...)
	}
	return found
}

func valueOf(object *yaml.Node, key string) *yaml.Node {
	if object.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == key {
			return object.Content[i+1]
		}
	}
	return nil
}

func textOf(object *yaml.Node, key string) string {
	if value := valueOf(object, key); value != nil {
		return value.Value
	}
	return ""
}
