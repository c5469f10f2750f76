# Ranks the nodes of a drawn graph by their links, four rounds: `graph.rb NODES`.
nodes = ARGV[0].to_i
drawn = 1
chance = -> { (drawn = (drawn * 16_807) % 2_147_483_647) / 2_147_483_647.0 }
links = Array.new(nodes) { Array.new(4 + (chance.call * 8).to_i) { ((chance.call**2) * nodes).to_i } }
ranks = Array.new(nodes, 1.0)
4.times do
  passed = Array.new(nodes, 0.15)
  links.each_with_index { |to, from| to.each { |node| passed[node] += 0.85 * ranks[from] / to.size } }
  ranks = passed
end
puts ranks.max(3).map { |rank| format('%.6f', rank) }.join(' ')
