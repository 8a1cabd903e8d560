package importer

import (
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-dev/weir/internal/policyfile"
)

// Unwrap replaces each ConfigMap in the files by the configurations in its data: a configuration in a cluster is usually in a ConfigMap. They become
// files of the same name, with the lines at which they are in the original, so that findings have the right lines. ConfigMaps without a configuration
// stay.
func Unwrap(files []policyfile.File) []policyfile.File {
	var unwrapped []policyfile.File
	for _, file := range files {
		var rest strings.Builder
		var inside []policyfile.File
		line := 0
		for _, text := range documents(string(file.Content)) {
			found := configurations(file.Name, text, line)
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

// configurations returns the configurations in a document that is a ConfigMap, or a list of ConfigMaps. The line is the number of lines before it.
func configurations(name, text string, line int) []policyfile.File {
	if !strings.Contains(text, "ConfigMap") {
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
		if textOf(object, "kind") != "ConfigMap" || textOf(object, "apiVersion") != "v1" {
			return nil
		}
		data := valueOf(object, "data")
		if data == nil || data.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i+1 < len(data.Content); i += 2 {
			if key, value := data.Content[i], data.Content[i+1]; isConfiguration(key.Value, value) {
				before := line + value.Line - 1
				if value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 { // the text begins below the indicator
					before++
				}
				found = append(found, policyfile.File{Name: name, Content: []byte(strings.Repeat("\n", before) + value.Value)})
			}
		}
	}
	return found
}

// isConfiguration reports whether a value of a ConfigMap is a file with objects.
func isConfiguration(key string, value *yaml.Node) bool {
	switch filepath.Ext(key) {
	case ".yaml", ".yml", ".json", "":
	default:
		return false
	}
	if value.Kind != yaml.ScalarNode {
		return false
	}
	var content yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(value.Value))
	return decoder.Decode(&content) == nil && len(content.Content) > 0 && content.Content[0].Kind == yaml.MappingNode
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
